# For test programs that run under mpirun; include() it from any folder of tests, inside if(LACONIC_MPI).
include_guard(GLOBAL)

add_library(laconic_mpi_main STATIC ${CMAKE_CURRENT_LIST_DIR}/../support/mpi_main.cpp)
target_link_libraries(laconic_mpi_main PUBLIC laconic_mpi GTest::gtest MPI::MPI_CXX PRIVATE laconic_test_flags)
target_include_directories(laconic_mpi_main PRIVATE ${PROJECT_SOURCE_DIR}/tests)

# laconic_mpi_program(name SOURCES files... LIBRARIES targets...): a GoogleTest program whose ranks all run every test.
function(laconic_mpi_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  laconic_test_program(${name} SOURCES ${ARG_SOURCES} LIBRARIES ${ARG_LIBRARIES} laconic_mpi_main)
endfunction()

# laconic_mpi_test(name RANKS n TARGET program [MCA name value...] [ARGUMENTS arguments...] [ENVIRONMENT A=b...]
# [TIMEOUT seconds]): one ctest entry that runs any executable under mpirun. More ranks than cores, and root in a
# container, are fine here and nowhere else.
function(laconic_mpi_test name)
  cmake_parse_arguments(ARG "" "RANKS;TARGET;TIMEOUT" "MCA;ARGUMENTS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LACONIC_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set(mca)
  while(ARG_MCA)
    list(POP_FRONT ARG_MCA key value)
    list(APPEND mca --mca ${key} ${value})
  endwhile()
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1
    ${mca} ${MPIEXEC_NUMPROC_FLAG} ${ARG_RANKS} $<TARGET_FILE:${ARG_TARGET}> ${ARG_ARGUMENTS})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  # OpenMPI keeps memory at its end, which is not ours to free; of the stack, see stage_asan in scripts/test.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS 2 LABELS ${folder}
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0;${ARG_ENVIRONMENT}")
  laconic_test_cost(${name})
endfunction()
