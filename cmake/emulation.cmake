# -DLACONIC_CUDA=EMULATED: the .cu files run on the CPU, for tests where there is no GPU. See tests/emulation/README.md.
add_library(laconic_emulation STATIC tests/emulation/runtime.cpp tests/emulation/streams.cpp
  tests/emulation/threads.cpp)
target_include_directories(laconic_emulation PUBLIC ${PROJECT_SOURCE_DIR}/tests/emulation)
target_link_libraries(laconic_emulation PRIVATE laconic_flags Threads::Threads)
set_target_properties(laconic_emulation PROPERTIES UNITY_BUILD OFF)  # files whose constants share names

# laconic_emulate_cuda(folder): every .cu file of every target below the folder is compiled by emulate.py.
function(laconic_emulate_cuda folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    if(sources)
      get_target_property(home ${target} SOURCE_DIR)
      list(TRANSFORM sources REPLACE "^([^/].*)" "${home}/\\1")
      set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} PROPERTY LANGUAGE CXX)
      set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
      set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
      get_target_property(launcher ${target} CXX_COMPILER_LAUNCHER)
      set(emulate ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/emulation/emulate.py)
      if(launcher)
        list(APPEND emulate ${launcher})
      endif()
      set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER ${emulate})
      set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY
        OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/tests/emulation/emulate.py)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each ${folders})
    laconic_emulate_cuda(${each})
  endforeach()
endfunction()
