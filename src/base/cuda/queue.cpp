#include "base/cuda/queue.h"

#include <cstring>
#include <string>

#include "base/check.h"

namespace laconic {
namespace cuda {
namespace {

/// A status, a header or a few counts. A copy to memory that is not pinned takes longer to begin.
constexpr std::size_t kNoteBytes = 4096;

int existing(int device) {
  const int count = cuda_device_count();
  if (device >= 0 && device < count) return device;
  throw InvalidConfig("CUDA device " + std::to_string(device) + " does not exist, this process can use " +
                      std::to_string(count) + ", counted from 0: look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use " +
                      "a place on the CPU");
}

}  // namespace

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // else the next launch would report it once more
  throw CudaError(std::string(call) + " failed on CUDA with " + cudaGetErrorName(result) + ", " +
                  cudaGetErrorString(result) + ": an earlier kernel may be the cause; compute-sanitizer finds it");
}

OnDevice::OnDevice(int device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  changed_ = before_ != device;
  if (changed_) check(cudaSetDevice(device), "cudaSetDevice");
}

OnDevice::~OnDevice() {
  if (changed_) static_cast<void>(cudaSetDevice(before_));
}

Queue::Queue(const CudaOptions& options) : device_(existing(options.device)), own_(!options.stream.has_value()) {
  const OnDevice here(device_);
  if (own_) {
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, options.high_priority ? highest : lowest),
          "cudaStreamCreateWithPriority");
  } else {
    stream_ = *options.stream;
  }
  overlaps_ = kernels_overlap();
  note_ = share_pinned_memory(kNoteBytes);
}

Queue::~Queue() {
  if (own_) static_cast<void>(cudaStreamDestroy(stream_));
}

void* Queue::allocate(std::size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void Queue::release(void* memory) noexcept {
  int before = device_;
  static_cast<void>(cudaGetDevice(&before));
  static_cast<void>(cudaSetDevice(device_));  // a default stream is the current device's
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaFree(memory));
  static_cast<void>(cudaSetDevice(before));
}

void Queue::read(void* to, const void* from, std::size_t bytes) {
  const bool short_enough = bytes <= kNoteBytes;
  copy(short_enough ? note_.get() : to, from, bytes);
  wait();
  if (short_enough) std::memcpy(to, note_.get(), bytes);
}

void Queue::write(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes);
  wait();
}

std::shared_ptr<std::byte> Queue::share_memory(std::size_t bytes) {
  return {static_cast<std::byte*>(allocate(bytes)), [](std::byte* memory) { static_cast<void>(cudaFree(memory)); }};
}

std::shared_ptr<std::byte> Queue::share_pinned_memory(std::size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return {static_cast<std::byte*>(memory), [](std::byte* given) { static_cast<void>(cudaFreeHost(given)); }};
}

void Queue::copy(void* to, const void* from, std::size_t bytes) {
  const OnDevice here(device_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

void Queue::clear(void* memory, std::size_t bytes) {
  const OnDevice here(device_);
  check(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
}

void Queue::wait() {
  const OnDevice here(device_);
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Queue& queue_of(Place& place) {
  LACONIC_CHECK(static_cast<int>(place.device()) == static_cast<int>(Device::cuda));
  return static_cast<Queue&>(*place.queue());
}

}  // namespace cuda

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());  // no driver is an answer, not a fault that the next launch should report
  return 0;
}

std::string cuda_device_name(int device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, cuda::existing(device)), "cudaGetDeviceProperties");
  return properties.name;
}

std::string cuda_obstacle(int device) {
  int count = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::string("CUDA reports ") + cudaGetErrorName(result) + ", " + cudaGetErrorString(result) +
           ": look at nvidia-smi; the driver must support CUDA " + std::to_string(CUDART_VERSION / 1000);
  }
  if (device < 0 || device >= count) return "CUDA device " + std::to_string(device) + " does not exist";
  int major = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  if (major >= cuda::kLeastCapability) return {};
  return "CUDA device " + std::to_string(device) + " has compute capability " + std::to_string(major) +
         ".x, the kernels need " + std::to_string(cuda::kLeastCapability) + ".0 or later: use a newer GPU";
}

std::unique_ptr<Place> cuda_place(CudaOptions options) {
  auto queue = std::make_unique<cuda::Queue>(options);  // refuses a device that is not there
  if (const std::string obstacle = cuda_obstacle(options.device); !obstacle.empty()) throw InvalidConfig(obstacle);
  return std::make_unique<Place>(Device::cuda, std::move(queue));
}

CUstream_st* cuda_stream(Place& place) { return cuda::queue_of(place).stream(); }

}  // namespace laconic
