# Flags of all our targets. Floating point is part of the specification, so nothing may be contracted or reordered.
add_library(laconic_flags INTERFACE)
target_include_directories(laconic_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
target_compile_features(laconic_flags INTERFACE cxx_std_20)
target_compile_options(laconic_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-math-errno -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi>
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
foreach(part HIGHWAY MPI CUDA TORCH)
  target_compile_definitions(laconic_flags INTERFACE LACONIC_${part}=$<BOOL:${LACONIC_${part}}>)
endforeach()
if(LACONIC_SANITIZE)
  target_compile_options(laconic_flags INTERFACE -fsanitize=${LACONIC_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(laconic_flags INTERFACE -fsanitize=${LACONIC_SANITIZE})
endif()

# laconic_layer(name sources...): the library laconic_<name> of the folder that it is called in.
function(laconic_layer name)
  add_library(laconic_${name} STATIC ${ARGN})
  add_library(laconic::${name} ALIAS laconic_${name})
  target_link_libraries(laconic_${name} PUBLIC laconic_flags)
endfunction()

# laconic_test(name SOURCES files... LIBRARIES targets...): one GoogleTest program, one ctest entry.
function(laconic_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
