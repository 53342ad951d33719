# Tests that take longer than 5 s of processor time, and how many. ctest begins with the longest: one that began last would
# run alone. An order, not a limit; from its second run on in a build folder ctest knows the times itself.
set(LACONIC_TEST_COSTS
)

# laconic_test_cost(name): tells ctest what the table says of the test.
function(laconic_test_cost name)
  list(FIND LACONIC_TEST_COSTS ${name} at)
  if(NOT at EQUAL -1)
    math(EXPR at "${at} + 1")
    list(GET LACONIC_TEST_COSTS ${at} seconds)
    set_tests_properties(${name} PROPERTIES COST ${seconds})
  endif()
endfunction()
