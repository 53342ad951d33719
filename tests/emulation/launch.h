#pragma once

// A launch: emulate.py writes `kernel<<<grid, block, shared, stream>>>(arguments)` as
//   Launch("kernel", grid, block, shared, stream)([&](const auto&... a) { kernel(a...); })(arguments)

#include <cstddef>
#include <cstdint>
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

/// Opens device memory to this process for its lifetime; several threads may have one at a time.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

/// Ends the program unless a kernel may be given this pointer: one to device or pinned memory, or null.
void require_reachable(const char* kernel, int argument, const void* pointer);

/// The most dynamic shared memory that any kernel was allowed with cudaFuncSetAttribute; 48 KiB at least.
std::size_t dynamic_shared_limit();

void set_last_error(cudaError_t error);

class Launch {
 public:
  Launch(const char* kernel, dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = nullptr,
         Location at = Location::current())
      : kernel_(kernel), grid_(grid), block_(block), shared_(shared), at_(at) {
    static_cast<void>(stream);  // all work is done at once, in the order in which it is given
  }

  /// Sets the kernel. What that gives takes the arguments and runs it.
  template <class Kernel>
  auto operator()(Kernel kernel) const {
    return [launch = *this, kernel](auto... arguments) {
      if (!launch.possible()) return;
      int number = 0;
      (launch.check_argument(++number, arguments), ...);
      const auto thread = [&] { kernel(arguments...); };
      using Thread = decltype(thread);
      launch.run([](const void* body) { (*static_cast<const Thread*>(body))(); }, &thread);
    };
  }

 private:
  bool possible() const;
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
  Location at_;
};

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

inline constexpr int kPoison = 0xDB;  ///< every byte of memory that nobody has written yet

}  // namespace laconic::emulation
