# The kernels that codecs stand on.
foreach(kernel coded descent elementwise convert numbers sparse stripe indices block checksum)
  laconic_test(${kernel}_test SOURCES ${kernel}_test.cpp LIBRARIES laconic_kernels laconic_test_support)
endforeach()
