# What a program needs to include our headers, here and from where they are installed.
add_library(laconic_headers INTERFACE)
target_include_directories(laconic_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
target_compile_features(laconic_headers INTERFACE cxx_std_20)

# Flags of all our targets. Floating point is part of the specification, so nothing may be contracted or reordered.
add_library(laconic_flags INTERFACE)
target_link_libraries(laconic_flags INTERFACE laconic_headers)
target_include_directories(laconic_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Relaxed constexpr lets device code call our constexpr functions, Philox above all, so that there is one of each.
target_compile_options(laconic_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-math-errno -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-overloaded-shift-op-parentheses>  # LACONIC_CHECK means it
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>  # loops that may become vectors do not at -O1
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off,-fno-math-errno,-Wall,-Wextra>
  $<$<COMPILE_LANGUAGE:CUDA>:-diag-suppress=554>)  # a conversion operator whose `requires` rules that class out
foreach(part HIGHWAY MPI CUDA CUDA_EMULATED TORCH)
  target_compile_definitions(laconic_flags INTERFACE LACONIC_${part}=$<BOOL:${LACONIC_${part}}>)
endforeach()
if(LACONIC_SANITIZE)
  target_compile_options(laconic_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LACONIC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(laconic_flags INTERFACE -fsanitize=${LACONIC_SANITIZE})
endif()

# laconic_compile_quickly(target [sources...]): for code in which no time is spent, a target's or only those sources':
# compilers spend theirs on templates of others there. Optimised a little, under sanitizers not at all.
function(laconic_compile_quickly target)
  set(option $<$<CONFIG:Release>:-O1>)
  if(LACONIC_SANITIZE)
    set(option -O0)
  endif()
  if(ARGN)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${option})
  else()
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endif()
endfunction()

# The law of the layers is checked before anything of ours is compiled: a folder that includes what it may not fails
# the build. The check takes some milliseconds, so it runs in every build.
add_executable(laconic_layer_check ${PROJECT_SOURCE_DIR}/tests/layers/check_layers.cpp)
laconic_compile_quickly(laconic_layer_check)
add_custom_target(laconic_layers COMMAND laconic_layer_check ${PROJECT_SOURCE_DIR}
  COMMENT "Checking who includes whom" VERBATIM)

# laconic_layer(name sources...): the library laconic_<name> of the folder that it is called in. laconic_layers_all is a
# target that builds all of them and no test.
add_custom_target(laconic_layers_all)
function(laconic_layer name)
  add_library(laconic_${name} STATIC ${ARGN})
  add_library(laconic::${name} ALIAS laconic_${name})
  target_link_libraries(laconic_${name} PUBLIC laconic_headers $<BUILD_INTERFACE:laconic_flags>)
  add_dependencies(laconic_${name} laconic_layers)
  add_dependencies(laconic_layers_all laconic_${name})
endfunction()

# What all programs of tests share: their flags (tests/CMakeLists.txt adds to them), and GoogleTest's and the standard
# library's headers, which take a compiler longer than most tests do. They are read once, compiled as programs are.
add_library(laconic_test_flags INTERFACE)
function(laconic_add_test_headers)
  add_library(laconic_test_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
  target_link_libraries(laconic_test_headers PRIVATE laconic_flags GTest::gtest laconic_test_flags)
  set_target_properties(laconic_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(laconic_test_headers PRIVATE -fPIE)
  target_precompile_headers(laconic_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <cmath>
    <filesystem> <fstream> <functional> <memory> <mutex> <numeric> <random> <span> <string> <thread> <vector>)
endfunction()

# Sets LACONIC_TEST_FOLDERS to the folders of the present path below tests/.
macro(laconic_find_test_folders)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests
             OUTPUT_VARIABLE LACONIC_TEST_FOLDERS)
  string(REPLACE "/" ";" LACONIC_TEST_FOLDERS ${LACONIC_TEST_FOLDERS})
endmacro()

# laconic_test_program(name SOURCES files... LIBRARIES targets... [HEADERS target]): a program of tests, without an entry in
# ctest. tests_<folder> builds the programs in that folder alone. HEADERS: whose precompiled headers it reads.
function(laconic_test_program name)
  cmake_parse_arguments(ARG "" "HEADERS" "SOURCES;LIBRARIES" ${ARGN})
  laconic_find_test_folders()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} laconic_test_flags)  # last, to take options back
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS laconic_test_headers)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  foreach(folder ${LACONIC_TEST_FOLDERS})
    if(NOT TARGET tests_${folder})
      add_custom_target(tests_${folder})
    endif()
    add_dependencies(tests_${folder} ${name})
  endforeach()
endfunction()

# laconic_test(name SOURCES files... LIBRARIES targets... [HEADERS target] [TIMEOUT seconds]): one GoogleTest program, one
# ctest entry. Each folder of its path below tests/ is a label of the entry.
function(laconic_test name)
  cmake_parse_arguments(ARG "" "HEADERS;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  laconic_find_test_folders()
  laconic_test_program(${name} HEADERS ${ARG_HEADERS} SOURCES ${ARG_SOURCES} LIBRARIES ${ARG_LIBRARIES} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LACONIC_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${LACONIC_TEST_FOLDERS}")
  laconic_test_cost(${name})
endfunction()

# laconic_slow_tests(name filter): those tests of a GoogleTest program that match the filter become an entry of their own,
# <name>_slow, which make test leaves to make test-all.
function(laconic_slow_tests name filter)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT GTEST_FILTER=-${filter})
  add_test(NAME ${name}_slow COMMAND ${name})
  laconic_find_test_folders()
  set_tests_properties(${name}_slow PROPERTIES
    ENVIRONMENT GTEST_FILTER=${filter} TIMEOUT 300 LABELS "${LACONIC_TEST_FOLDERS};slow")
endfunction()
