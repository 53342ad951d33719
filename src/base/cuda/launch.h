#pragma once

// What every .cu file needs. Each file has the kernel first, then its launcher, which takes a place and launches on
// that place's stream. Nothing here waits for the device.

#include <cstdint>
#include <type_traits>

#include "base/cuda/queue.h"

namespace laconic::cuda {

inline constexpr unsigned kThreads = 256;  ///< threads per block, in every kernel
inline constexpr unsigned kWarp = 32;

/// Surrounds launches. Its device is the current one for its lifetime; `check` throws if the launch before it failed.
class Launch {
 public:
  Launch(Place& place, const char* kernel) : kernel_(kernel), queue_(queue_of(place)), here_(queue_.device()) {}

  cudaStream_t stream() const { return queue_.stream(); }
  bool overlaps() const { return queue_.overlaps(); }
  void check() const { check(cudaGetLastError()); }
  void check(cudaError_t result) const { cuda::check(result, kernel_); }

 private:
  const char* kernel_;
  const Queue& queue_;
  OnDevice here_;
};

/// Number of blocks that cover `count` entries with `per_thread` entries per thread. At most 2^31 - 1, which is 2^39
/// threads.
inline unsigned blocks_for(std::uint64_t count, std::uint64_t per_thread) {
  const std::uint64_t per_block = kThreads * per_thread;
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

/// Entries per thread of an elementwise kernel: enough loads in flight to hide the latency of memory.
inline constexpr unsigned kEntries = 8;

/// Kernels that follow each other. Blocks of one may begin when all blocks of the one before it have called
/// let_next_kernel_begin or ended; the first begins as usual. In every later kernel each thread calls
/// wait_for_last_kernel. Then the one before has ended, and so have all earlier ones, which have waited likewise.
/// Before that call a thread writes no global memory, and what it reads must have been written before the first kernel.
class Chain {
 public:
  explicit Chain(const Launch& launch) : launch_(launch) {}

  template <class... Parameters>
  void run(unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
           const std::type_identity_t<Parameters>&... arguments) {
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = launch_.stream();
    config.attrs = &overlap;
    config.numAttrs = !is_first_ && launch_.overlaps() ? 1 : 0;
    launch_.check(cudaLaunchKernelEx(&config, kernel, arguments...));
    is_first_ = false;
  }

  /// An elementwise kernel over n entries; nothing if there are none.
  template <class... Parameters>
  void run_over(std::uint64_t n, void (*kernel)(Parameters...), const std::type_identity_t<Parameters>&... arguments) {
    if (n > 0) run(blocks_for(n, kEntries), kThreads, kernel, arguments...);
  }

 private:
  const Launch& launch_;
  bool is_first_ = true;
};

#ifdef __CUDACC__
// For the kernels of a Chain.

inline __device__ void wait_for_last_kernel() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
inline __device__ void let_next_kernel_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// The index of this thread in the whole launch.
inline __device__ std::uint64_t thread_index() { return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; }

/// Calls body(i) for this thread's entries below n. They are one block width apart, so that neighbouring threads of a
/// warp access neighbouring entries. `block` is the number of this block among those that work on the n entries.
template <class Body>
__device__ void for_each_entry(unsigned block, std::uint64_t n, Body body) {
  const std::uint64_t first = std::uint64_t{block} * kThreads * kEntries + threadIdx.x;
#pragma unroll
  for (unsigned step = 0; step < kEntries; ++step) {
    const std::uint64_t i = first + step * kThreads;
    if (i < n) body(i);
  }
}

template <class Body>
__device__ void for_each_entry(std::uint64_t n, Body body) {
  for_each_entry(blockIdx.x, n, body);
}

/// load(i) for each of this thread's entries below n, then store(i, what was loaded). All loads are under way before
/// the first store; the compiler cannot arrange that by itself, since a view that is written may be one that is read.
template <class Load, class Store>
__device__ void load_then_store(unsigned block, std::uint64_t n, Load load, Store store) {
  const std::uint64_t first = std::uint64_t{block} * kThreads * kEntries + threadIdx.x;
  decltype(load(first)) loaded[kEntries];
#pragma unroll
  for (unsigned step = 0; step < kEntries; ++step) {
    const std::uint64_t i = first + step * kThreads;
    if (i < n) loaded[step] = load(i);
  }
#pragma unroll
  for (unsigned step = 0; step < kEntries; ++step) {
    const std::uint64_t i = first + step * kThreads;
    if (i < n) store(i, loaded[step]);
  }
}

template <class Load, class Store>
__device__ void load_then_store(std::uint64_t n, Load load, Store store) {
  load_then_store(blockIdx.x, n, load, store);
}

/// Gives an elementwise kernel over n entries to the place's stream; nothing if there are none.
template <class... Parameters>
void launch_over(Place& place, const char* name, std::uint64_t n, void (*kernel)(Parameters...),
                 std::type_identity_t<Parameters>... arguments) {
  if (n == 0) return;
  const Launch launch(place, name);
  kernel<<<blocks_for(n, kEntries), kThreads, 0, launch.stream()>>>(arguments...);
  launch.check();
}

inline __device__ bool is_nonfinite(float value) { return (__float_as_uint(value) & 0x7F80'0000U) == 0x7F80'0000U; }
#endif

}  // namespace laconic::cuda
