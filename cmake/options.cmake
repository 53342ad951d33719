# Each optional part is ON when it is found, and the summary says which were. -DLACONIC_MPI=OFF leaves one out;
# -DLACONIC_MPI=ON makes its absence an error.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)

# laconic_option(NAME found "what it gives"): ON when found, an error when asked for and missing.
macro(laconic_option name found description)
  if(NOT DEFINED LACONIC_${name} AND ${found})
    set(default ON)
  else()
    set(default OFF)
  endif()
  option(LACONIC_${name} "${description}" ${default})
  if(LACONIC_${name} AND NOT ${found})
    message(FATAL_ERROR "LACONIC_${name} is ON but what it needs was not found: run scripts/setup, or pass -DLACONIC_${name}=OFF")
  endif()
endmacro()

if(PkgConfig_FOUND)
  pkg_check_modules(HWY IMPORTED_TARGET QUIET libhwy)
endif()
laconic_option(HIGHWAY HWY_FOUND "SIMD kernels with Highway")

if(NOT DEFINED LACONIC_MPI OR LACONIC_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
laconic_option(MPI MPI_CXX_FOUND "the MPI transport")

if(NOT DEFINED LACONIC_TORCH OR LACONIC_TORCH)
  find_package(Torch QUIET HINTS ${LACONIC_TORCH_PREFIX})
endif()
laconic_option(TORCH Torch_FOUND "comparison with PyTorch's own operators")

if(NOT DEFINED LACONIC_CUDA OR LACONIC_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  set(LACONIC_CUDA_FOUND ${CMAKE_CUDA_COMPILER})
endif()
laconic_option(CUDA LACONIC_CUDA_FOUND "CUDA kernels")

find_package(CLI11 QUIET)
find_package(nlohmann_json QUIET)
if(CLI11_FOUND AND nlohmann_json_FOUND)
  set(LACONIC_TOOLS_FOUND ON)
endif()
laconic_option(TOOLS LACONIC_TOOLS_FOUND "the program laconic and its benchmarks")

find_package(GTest QUIET)
laconic_option(TESTS GTest_FOUND "the tests")

option(LACONIC_FUZZ "libFuzzer targets for the decoders; needs clang" OFF)
set(LACONIC_SANITIZE "" CACHE STRING "sanitizers for everything, as -fsanitize takes them: address,undefined or thread")
