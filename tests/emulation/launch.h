#pragma once

// A launch: emulate.py writes `kernel<<<grid, block, shared, stream>>>(arguments)` as
//   Launch("kernel", grid, block, shared, stream)([=](const auto&... a) { kernel(a...); })(arguments)

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <type_traits>

#include "cuda_runtime.h"

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace laconic::emulation {

using Location = std::source_location;

/// Ends the program unless a kernel may be given this pointer: one to device or pinned memory, or null.
void require_reachable(const char* kernel, int argument, const void* pointer);

/// The most dynamic shared memory that any kernel was allowed with cudaFuncSetAttribute; 48 KiB at least.
std::size_t dynamic_shared_limit();

/// The stream does the work later, after what it was given before.
void give(cudaStream_t stream, std::function<void()> work);

class Launch {
 public:
  Launch(const char* kernel, dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = nullptr,
         Location at = Location::current())
      : kernel_(kernel), grid_(grid), block_(block), shared_(shared), stream_(stream), at_(at) {}

  /// Each of its threads must wait for the launch before.
  void let_overlap() { overlaps_ = true; }

  /// Sets the kernel. What that gives takes the arguments and gives the stream the launch.
  template <class Kernel>
  auto operator()(Kernel kernel) const {
    return [launch = *this, kernel](auto... arguments) {
      if (!launch.possible()) return;
      int number = 0;
      (launch.check_argument(++number, arguments), ...);
      launch.count();
      give(launch.stream_, [launch, kernel, arguments...] {
        const auto thread = [&] { kernel(arguments...); };
        using Thread = decltype(thread);
        launch.run([](const void* body) { (*static_cast<const Thread*>(body))(); }, &thread);
      });
    };
  }

 private:
  bool possible() const;
  static void count();
  void run(void (*body)(const void*), const void* data) const;

  template <class T>
  void check_argument(int number, const T& argument) const {
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)
      require_reachable(kernel_, number, argument);
  }

  const char* kernel_;
  dim3 grid_;
  dim3 block_;
  std::size_t shared_;
  cudaStream_t stream_;
  Location at_;
  bool overlaps_ = false;
};

/// Notes that this thread has waited for the launch before.
void wait_for_last_launch();

// What threads of a block do together. All that are meant must come to the call; if one never does, the program ends
// and says who waits where.

enum class Together : std::uint8_t { nothing, sync, count, all, any };

/// Waits for all threads of the block.
int with_block(Together what, int value, Location at);

enum class WarpCall : std::uint8_t {
  sync,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  match_any,
  add,
  min_unsigned,
  max_unsigned,
  min_signed,
  max_signed,
  bits_and,
  bits_or,
  bits_xor,
};

/// Waits for the lanes of the mask. `lane` is whom a shuffle asks, in a group of `width`.
std::uint64_t with_warp(WarpCall call, unsigned mask, std::uint64_t value, int lane, int width, Location at);

/// Lets the other threads of the block go on.
void yield_thread();

unsigned lane_of_thread();

void* dynamic_shared();

/// Fills shared memory with garbage when the first thread of a block comes to its declaration. `filled` is its block.
void spoil_shared(void* memory, std::size_t bytes, std::uint64_t& filled);

}  // namespace laconic::emulation

/// Kernels of a stream never overlap here, but they must wait as if they did.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  laconic::emulation::Launch launch("kernel", config->gridDim, config->blockDim, config->dynamicSmemBytes,
                                    config->stream);
  if (config->numAttrs > 0) launch.let_overlap();
  launch(kernel)(static_cast<Parameters>(arguments)...);
  return cudaPeekAtLastError();
}
inline void cudaGridDependencySynchronize() { laconic::emulation::wait_for_last_launch(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {}
