// <laconic/cuda.h> in a build without CUDA: no devices, so no places on them.

#include "laconic/cuda.h"

namespace laconic {
namespace {

[[noreturn]] void refuse() {
  throw InvalidConfig("this build has no CUDA: configure with -DLACONIC_CUDA=ON, or use a place on the CPU");
}

}  // namespace

int cuda_device_count() { return 0; }
std::string cuda_obstacle(int /*device*/) {
  return "this build of Laconic has no CUDA kernels: build it with nvcc (CUDA's toolkit) and, for Python, beside a "
         "CUDA build of PyTorch";
}
std::string cuda_device_name(int /*device*/) { refuse(); }
std::unique_ptr<Place> cuda_place(CudaOptions /*options*/) { refuse(); }
CUstream_st* cuda_stream(Place& /*place*/) { refuse(); }

}  // namespace laconic
