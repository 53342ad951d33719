# The C++ library inside a PyTorch wheel, as the target laconic_torch_wheel. Not by find_package(Torch): a CUDA wheel's
# configuration is a fatal error where there is no CUDA toolkit. A CUDA wheel's CUDA libraries are loaded by who uses them.
# LACONIC_TORCH_PREFIX is the folder of the Python package torch; scripts/setup finds it.

set(LACONIC_TORCH_PREFIX "" CACHE PATH "folder of the Python package torch")
set(LACONIC_TORCH_FOUND OFF)

find_path(LACONIC_TORCH_INCLUDE ATen/ATen.h HINTS ${LACONIC_TORCH_PREFIX}/include)
find_path(LACONIC_TORCH_API_INCLUDE torch/torch.h HINTS ${LACONIC_TORCH_PREFIX}/include/torch/csrc/api/include
  ${LACONIC_TORCH_INCLUDE}/torch/csrc/api/include)
find_library(LACONIC_TORCH_CPU torch_cpu HINTS ${LACONIC_TORCH_PREFIX}/lib)
find_library(LACONIC_TORCH_C10 c10 HINTS ${LACONIC_TORCH_PREFIX}/lib)
mark_as_advanced(LACONIC_TORCH_INCLUDE LACONIC_TORCH_API_INCLUDE LACONIC_TORCH_CPU LACONIC_TORCH_C10)

if(LACONIC_TORCH_INCLUDE AND LACONIC_TORCH_API_INCLUDE AND LACONIC_TORCH_CPU AND LACONIC_TORCH_C10)
  # The numbers moved into a header of their own in the course of time.
  set(lines "")
  foreach(header ${LACONIC_TORCH_INCLUDE}/torch/headeronly/version.h ${LACONIC_TORCH_API_INCLUDE}/torch/version.h)
    if(NOT lines AND EXISTS ${header})
      file(STRINGS ${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
    endif()
  endforeach()
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" LACONIC_TORCH_VERSION "${lines}")
  if(LACONIC_TORCH_VERSION VERSION_LESS 2.7)
    message(STATUS "PyTorch ${LACONIC_TORCH_VERSION} is refused: wheels before 2.7 have the old C++ ABI")
  else()
    set(LACONIC_TORCH_FOUND ON)
    add_library(laconic_torch_wheel INTERFACE)
    target_include_directories(laconic_torch_wheel SYSTEM INTERFACE
      ${LACONIC_TORCH_INCLUDE} ${LACONIC_TORCH_API_INCLUDE})
    target_link_libraries(laconic_torch_wheel INTERFACE ${LACONIC_TORCH_CPU} ${LACONIC_TORCH_C10})
  endif()
endif()
