# Tests that take longer than some 5 s of processor time, and about how many. ctest begins with the longest: one that began
# last would run alone. An order, not a limit; from its second run on in a build folder ctest knows the times itself.
set(LACONIC_TEST_COSTS
  python_sharded_native_CombinationsTest 130  python_sharded_methods_test 45
  python_sharded_native_NativeTest 70  python_sharded_optimizer_test 30  python_sharded_state_test 25
  python_sharded_failures_test 20
  train_test 50  mpi_training_test 40  python_ddp_methods_test 39  python_optimizer_state_test 34  network_bands_test 33
  program_test 30  python_examples_test 27  training_test 24  python_teardown_test 23  exchange_test 21
  python_ddp_exchanges_ExchangesTest 20  python_ddp_replicas_test 20  python_ddp_join_test 19  python_c10d_test 19
  python_package_test 17  python_ddp_exchanges_OwnCollectivesTest 15  python_optimizer_loop_test 15  mpi_settings_test 15
  methods_regtopk_page_test 14  faults_test 14  report_page_test 13  claims_test 11  python_ddp_scaler_test 11
  topk_test 10  python_agreement_test 9  diagnose_program_test 8  python_optimizer_rounds_test 8
  methods_table_test 7  mpi_test_tcp_pt2pt 7  exchange_mpi_test_4 7  export_test 7  network_claims_test 7
  python_runs_test 7  regtopk_test 7  methods_memory_test 6  statistics_test 6  elementwise_test 5)

# Tests that make test leaves to make test-all, so that a newcomer waits for about six minutes of tests on two cores.
# What they test fails rarely (ranks that are stopped or restarted, pages in a browser, the site), or is run by faster
# tests too.
set(LACONIC_SLOW_TESTS
  docs_site report_page_test faults_test mpi_settings_test mpi_training_test python_c10d_test python_hot_path_test
  python_teardown_test python_optimizer_state_test python_ddp_join_test python_ddp_restart_test
  python_ddp_exchanges_ExchangesTest python_ddp_exchanges_OwnCollectivesTest
  python_sharded_native_CombinationsTest python_sharded_optimizer_test python_sharded_state_test
  python_sharded_failures_test)

# laconic_test_cost(name): tells ctest what the tables say of the test. After its labels are set.
function(laconic_test_cost name)
  if(name IN_LIST LACONIC_SLOW_TESTS)
    set_property(TEST ${name} APPEND PROPERTY LABELS slow)
  endif()
  list(FIND LACONIC_TEST_COSTS ${name} at)
  if(NOT at EQUAL -1)
    math(EXPR at "${at} + 1")
    list(GET LACONIC_TEST_COSTS ${at} seconds)
    set_tests_properties(${name} PROPERTIES COST ${seconds})
  endif()
endfunction()
