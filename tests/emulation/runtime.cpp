#include "cuda_runtime.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string_view>

#include "calls.h"
#include "launch.h"
#include "memory.h"

namespace laconic::emulation {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{64} << 30;  ///< of addresses; pages exist once they are written
constexpr std::size_t kPageBytes = std::size_t{2} << 20;     ///< large pages: few of them are quick to open and close
constexpr std::size_t kAlignment = 256;
constexpr int kMultiprocessors = 132;
constexpr int kMostThreads = 1024;                          ///< of a block
constexpr std::size_t kMultiprocessorThreads = 2048;
constexpr std::size_t kSharedBytes = std::size_t{48} << 10;  ///< of a block that has not asked for more
constexpr std::size_t kMostSharedBytes = std::size_t{227} << 10;

constinit thread_local cudaError_t last_error = cudaSuccess;

/// The device's memory: one range of addresses that the host may not touch but while a launch or a copy runs.
/// LACONIC_EMULATION_PROTECT=0 leaves it open.
class Memory {
 public:
  static Memory& instance() {
    static Memory& memory = *new Memory;  // never destroyed: places may outlive static objects
    return memory;
  }

  void* allocate(std::size_t bytes) {
    const OpenMemory open;
    const std::lock_guard lock(mutex_);
    std::size_t begin = 0;
    for (const auto& [used, size] : used_) {
      if (used - begin >= bytes + kAlignment) break;
      begin = (used + size + 2 * kAlignment - 1) / kAlignment * kAlignment;  // at least one byte lies between two
    }
    if (begin + bytes > kMemoryBytes) return nullptr;
    used_.emplace(begin, bytes);
    if (begin + bytes > high_) {
      high_ = (begin + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
      set_access(true);
    }
    std::memset(base_ + begin, kPoison, bytes);
    bytes_ += bytes;
    return base_ + begin;
  }

  bool release(void* memory) {
    const OpenMemory open;
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(static_cast<std::size_t>(static_cast<char*>(memory) - base_));
    if (!owns(memory) || found == used_.end()) return false;
    std::memset(memory, kPoison, found->second);
    bytes_ -= found->second;
    used_.erase(found);
    return true;
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0 && high_ > 0) set_access(true);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0 && high_ > 0) set_access(false);
  }

  bool owns(const void* memory) const {
    const char* const at = static_cast<const char*>(memory);
    return at >= base_ && at < base_ + kMemoryBytes;
  }
  std::size_t used_bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  Memory() {
    const char* const setting = std::getenv("LACONIC_EMULATION_PROTECT");
    protects_ = setting == nullptr || std::string_view(setting) != "0";
    void* const range =
        mmap(nullptr, kMemoryBytes + kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
      std::perror("CUDA emulation: mmap of 64 GiB of addresses for device memory");
      std::abort();
    }
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(range) % kPageBytes;
    base_ = static_cast<char*>(range) + (kPageBytes - beyond) % kPageBytes;
    static_cast<void>(madvise(base_, kMemoryBytes, MADV_HUGEPAGE));  // only for speed
    struct sigaction action {};
    action.sa_sigaction = explain;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    sigaction(SIGSEGV, &action, nullptr);
  }

  void set_access(bool open) {
    if (!open && !protects_) return;
    if (mprotect(base_, high_, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0) return;
    std::perror("CUDA emulation: mprotect of device memory");
    std::abort();
  }

  /// Says what happened, then the access happens again and ends the program.
  static void explain(int /*signal*/, siginfo_t* info, void* /*context*/) {
    if (!instance().owns(info->si_addr)) return;
    constexpr std::string_view kText =
        "CUDA emulation: the CPU touched device memory outside of a kernel or a copy (or a kernel touched device "
        "memory beyond all that is allocated). The stack of this crash says where; LACONIC_EMULATION_PROTECT=0 lets it "
        "pass\n";
    static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  }

  bool protects_ = true;
  char* base_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> used_;  ///< offsets and sizes
  std::size_t high_ = 0;                     ///< end of what was ever used
  std::size_t bytes_ = 0;
  int users_ = 0;
};

/// Pinned memory, which the host and kernels may touch.
struct Pinned {
  std::mutex mutex;
  std::map<const char*, std::size_t> used;

  static Pinned& instance() {
    static Pinned& pinned = *new Pinned;
    return pinned;
  }
  bool owns(const void* memory) {
    const std::lock_guard lock(mutex);
    const char* const at = static_cast<const char*>(memory);
    const auto after = used.upper_bound(at);
    if (after == used.begin()) return false;
    const auto found = std::prev(after);
    return at <= found->first + found->second;
  }
};

std::atomic<std::size_t> dynamic_limit{kSharedBytes};

}  // namespace

OpenMemory::OpenMemory() { Memory::instance().open(); }
OpenMemory::~OpenMemory() { Memory::instance().close(); }

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool is_device_memory(const void* memory) { return Memory::instance().owns(memory); }
bool is_pinned_memory(const void* memory) { return Pinned::instance().owns(memory); }

std::size_t dynamic_shared_limit() { return dynamic_limit; }

void require_reachable(const char* kernel, int argument, const void* pointer) {
  if (pointer == nullptr || is_device_memory(pointer) || is_pinned_memory(pointer)) return;
  std::fprintf(stderr, "CUDA emulation: argument %d of kernel %s points to CPU memory: copy it to the device\n",
               argument, kernel);
  std::abort();
}

}  // namespace laconic::emulation

using laconic::emulation::kMostSharedBytes;
using laconic::emulation::kMostThreads;
using laconic::emulation::kMultiprocessors;
using laconic::emulation::kMultiprocessorThreads;
using laconic::emulation::kSharedBytes;
using laconic::emulation::Memory;
using laconic::emulation::noted;
using laconic::emulation::Pinned;

// The device.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return noted(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "an emulation on the CPU");
  properties->totalGlobalMem = laconic::emulation::kMemoryBytes;
  properties->sharedMemPerBlock = kSharedBytes;
  properties->sharedMemPerBlockOptin = kMostSharedBytes;
  properties->sharedMemPerMultiprocessor = kMostSharedBytes + 1024;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = kMostThreads;
  properties->maxThreadsPerMultiProcessor = kMultiprocessorThreads;
  properties->multiProcessorCount = kMultiprocessors;
  properties->major = 9;
  properties->l2CacheSize = 50 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(kSharedBytes); return cudaSuccess;
    case cudaDevAttrWarpSize: *value = properties.warpSize; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = properties.maxThreadsPerMultiProcessor; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(kMostSharedBytes); return cudaSuccess;
  }
  return noted(cudaErrorInvalidValue);
}

// Errors.

cudaError_t cudaPeekAtLastError() { return laconic::emulation::last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = laconic::emulation::last_error;
  laconic::emulation::last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorUnknown: break;
  }
  return "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorNotSupported: return "operation not supported";
    case cudaErrorUnknown: break;
  }
  return "unknown error";
}

// Memory.

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  ++laconic::emulation::calls_of_thread().allocations;
  *memory = bytes == 0 ? nullptr : Memory::instance().allocate(bytes);
  return noted(bytes == 0 || *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  laconic::emulation::finish_streams();
  return noted(memory == nullptr || Memory::instance().release(memory) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  using laconic::emulation::kAlignment;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  ++laconic::emulation::calls_of_thread().allocations;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) return noted(cudaErrorMemoryAllocation);
  std::memset(*memory, laconic::emulation::kPoison, bytes);
  Pinned& pinned = Pinned::instance();
  const std::lock_guard lock(pinned.mutex);
  pinned.used.emplace(static_cast<const char*>(*memory), bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  laconic::emulation::finish_streams();
  Pinned& pinned = Pinned::instance();
  {
    const std::lock_guard lock(pinned.mutex);
    const auto found = pinned.used.find(static_cast<const char*>(memory));
    if (found == pinned.used.end()) return noted(cudaErrorInvalidValue);
    pinned.used.erase(found);
  }
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = laconic::emulation::kMemoryBytes;
  *free = *total - Memory::instance().used_bytes();
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  void* const pointer = const_cast<void*>(memory);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, pointer};
  if (Memory::instance().owns(memory)) *attributes = {cudaMemoryTypeDevice, 0, pointer, nullptr};
  if (Pinned::instance().owns(memory)) *attributes = {cudaMemoryTypeHost, 0, pointer, pointer};
  return cudaSuccess;
}

// Kernels as such.

cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > kMostSharedBytes) return noted(cudaErrorInvalidValue);
  std::atomic<std::size_t>& limit = laconic::emulation::dynamic_limit;
  std::size_t now = limit;
  while (static_cast<std::size_t>(value) > now && !limit.compare_exchange_weak(now, static_cast<std::size_t>(value))) {
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {0, kMostThreads, 32, static_cast<int>(laconic::emulation::dynamic_shared_limit()), 90};
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/, int threads,
                                                          std::size_t shared) {
  if (threads <= 0 || threads > kMostThreads) return noted(cudaErrorInvalidValue);
  *blocks = static_cast<int>(kMultiprocessorThreads) / threads;
  if (shared > 0 && static_cast<int>(kMostSharedBytes / shared) < *blocks)
    *blocks = static_cast<int>(kMostSharedBytes / shared);
  return cudaSuccess;
}
