# The interpreter that the torch of LACONIC_TORCH_PREFIX belongs to, and what a module for it needs, as the target
# laconic_python_headers. LACONIC_PYTHON_EXECUTABLE names the interpreter; scripts/setup and pip's build tell it. Without
# it the one beside the torch is tried, then python3.

set(LACONIC_PYTHON_EXECUTABLE "" CACHE FILEPATH "the Python that has the torch of LACONIC_TORCH_PREFIX")
set(LACONIC_PYTHON_FOUND OFF)

# laconic_ask_python(interpreter answer): its include folder, module suffix and the folder of its torch, or nothing.
function(laconic_ask_python interpreter answer)
  set(${answer} "" PARENT_SCOPE)
  execute_process(COMMAND ${interpreter} -I -c "
import importlib.util, sysconfig
torch = importlib.util.find_spec('torch')
print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'), torch.submodule_search_locations[0], sep=';')"
    OUTPUT_VARIABLE said RESULT_VARIABLE result ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(result EQUAL 0)
    set(${answer} "${said}" PARENT_SCOPE)
  endif()
endfunction()

cmake_path(SET environment NORMALIZE "${LACONIC_TORCH_INCLUDE}/../../../../..")
if(LACONIC_PYTHON_EXECUTABLE)
  set(interpreters ${LACONIC_PYTHON_EXECUTABLE})
else()
  set(interpreters ${environment}/bin/python3 python3)
endif()
foreach(interpreter ${interpreters})
  if(LACONIC_PYTHON_FOUND)
    break()
  endif()
  laconic_ask_python(${interpreter} answer)
  if(NOT answer)
    continue()
  endif()
  list(GET answer 0 LACONIC_PYTHON_INCLUDE)
  list(GET answer 1 LACONIC_PYTHON_SUFFIX)
  list(GET answer 2 torch_folder)
  file(REAL_PATH ${torch_folder} torch_folder)
  file(REAL_PATH ${LACONIC_TORCH_INCLUDE}/.. torch_used)
  find_library(LACONIC_TORCH_PYTHON_LIBRARY torch_python HINTS ${torch_folder}/lib)
  mark_as_advanced(LACONIC_TORCH_PYTHON_LIBRARY)
  if(torch_folder STREQUAL torch_used AND EXISTS ${LACONIC_PYTHON_INCLUDE}/Python.h AND LACONIC_TORCH_PYTHON_LIBRARY)
    set(LACONIC_PYTHON_FOUND ON)
    set(LACONIC_PYTHON_INTERPRETER ${interpreter})
  endif()
endforeach()

if(LACONIC_PYTHON_FOUND)
  add_library(laconic_python_headers INTERFACE)
  target_include_directories(laconic_python_headers SYSTEM INTERFACE ${LACONIC_PYTHON_INCLUDE})
  target_link_libraries(laconic_python_headers INTERFACE laconic_torch_wheel ${LACONIC_TORCH_PYTHON_LIBRARY})
  # Modules share pybind11's types only if it was compiled alike. From 3.0 on it knows that by itself; before, torch
  # tells how its own was compiled.
  file(STRINGS ${LACONIC_TORCH_INCLUDE}/pybind11/detail/common.h version REGEX "define PYBIND11_VERSION_MAJOR ")
  if(version MATCHES " 2$")
    execute_process(COMMAND ${LACONIC_PYTHON_INTERPRETER} -I -c "
import torch._C
for part in ('COMPILER_TYPE', 'STDLIB', 'BUILD_ABI'):
  value = getattr(torch._C, '_PYBIND11_' + part, None)
  if value: print(f'PYBIND11_{part}=\"{value}\"', end=';')"
      OUTPUT_VARIABLE abi ERROR_QUIET)
    target_compile_definitions(laconic_python_headers INTERFACE ${abi})
  endif()
endif()
