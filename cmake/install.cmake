# make install: the library for CMake's find_package(laconic), and the program.
#
#   laconic::laconic   everything in <laconic/laconic.h> and <laconic/methods.h>
#   laconic::mpi       <laconic/mpi.h>, where this build has it
if(LACONIC_CUDA_EMULATED)
  install(CODE "message(FATAL_ERROR \"a build with LACONIC_CUDA=EMULATED is for tests: install one with ON or OFF\")")
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(laconic_laconic INTERFACE)
add_library(laconic::laconic ALIAS laconic_laconic)
target_link_libraries(laconic_laconic INTERFACE laconic_methods)

set(exported laconic_laconic laconic_headers laconic_base laconic_kernels laconic_codecs laconic_transport
  laconic_exchange laconic_methods)
if(LACONIC_MPI)
  list(APPEND exported laconic_mpi)
endif()
foreach(target ${exported})
  string(REGEX REPLACE "^laconic_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${exported} EXPORT laconic
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/laconic DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/laconic)
install(EXPORT laconic NAMESPACE laconic:: FILE laconicTargets.cmake DESTINATION ${package} COMPONENT development)
configure_package_config_file(cmake/laconicConfig.cmake.in ${PROJECT_BINARY_DIR}/laconicConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/laconicConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/laconicConfig.cmake ${PROJECT_BINARY_DIR}/laconicConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)

if(LACONIC_TOOLS)
  # Where the libraries lay that it was linked with, torch's above all.
  set_target_properties(laconic PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS laconic RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
