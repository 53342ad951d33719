foreach(kernel bitpack norm sign vote quantize quantize_scopes)
  laconic_test(${kernel}_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/${kernel}_test.cpp
    LIBRARIES laconic_kernels laconic_test_support)
endforeach()
