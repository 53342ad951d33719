#pragma once

// What kernels call. Included by cuda_runtime.h in .cu files.

#include <bit>
#include <cstring>
#include <source_location>

#include "launch.h"

// NOLINTBEGIN: the names and shapes here are CUDA's.

// Barriers and calls of a warp.

inline void __syncthreads(std::source_location at = std::source_location::current()) {
  laconic::emulation::with_block(laconic::emulation::Together::sync, 0, at);
}
inline int __syncthreads_count(int value, std::source_location at = std::source_location::current()) {
  return laconic::emulation::with_block(laconic::emulation::Together::count, value, at);
}
inline int __syncthreads_and(int value, std::source_location at = std::source_location::current()) {
  return laconic::emulation::with_block(laconic::emulation::Together::all, value, at);
}
inline int __syncthreads_or(int value, std::source_location at = std::source_location::current()) {
  return laconic::emulation::with_block(laconic::emulation::Together::any, value, at);
}

namespace laconic::emulation {
template <class T>
T in_warp(WarpCall call, unsigned mask, T value, int lane, int width, Location at) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = with_warp(call, mask, word, lane, width, at);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
}  // namespace laconic::emulation

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, std::source_location at = std::source_location::current()) {
  laconic::emulation::with_warp(laconic::emulation::WarpCall::sync, mask, 0, 0, warpSize, at);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize,
              std::source_location at = std::source_location::current()) {
  return laconic::emulation::in_warp(laconic::emulation::WarpCall::shuffle, mask, value, lane, width, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize,
                 std::source_location at = std::source_location::current()) {
  return laconic::emulation::in_warp(laconic::emulation::WarpCall::shuffle_up, mask, value, static_cast<int>(by), width,
                                     at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = warpSize,
                   std::source_location at = std::source_location::current()) {
  return laconic::emulation::in_warp(laconic::emulation::WarpCall::shuffle_down, mask, value, static_cast<int>(by),
                                     width, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  std::source_location at = std::source_location::current()) {
  return laconic::emulation::in_warp(laconic::emulation::WarpCall::shuffle_xor, mask, value, lanes, width, at);
}
inline unsigned __ballot_sync(unsigned mask, int value, std::source_location at = std::source_location::current()) {
  const std::uint64_t bit = value != 0 ? 1 : 0;
  return static_cast<unsigned>(
      laconic::emulation::with_warp(laconic::emulation::WarpCall::ballot, mask, bit, 0, warpSize, at));
}
inline int __any_sync(unsigned mask, int value, std::source_location at = std::source_location::current()) {
  return __ballot_sync(mask, value, at) != 0;
}
inline int __all_sync(unsigned mask, int value, std::source_location at = std::source_location::current()) {
  return __ballot_sync(mask, value, at) == mask;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, std::source_location at = std::source_location::current()) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return static_cast<unsigned>(
      laconic::emulation::with_warp(laconic::emulation::WarpCall::match_any, mask, word, 0, warpSize, at));
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* equal,
                          std::source_location at = std::source_location::current()) {
  *equal = __match_any_sync(mask, value, at) == mask ? 1 : 0;
  return *equal != 0 ? mask : 0U;
}

#define LACONIC_REDUCE(name, type, call)                                                                      \
  inline type name(unsigned mask, type value, std::source_location at = std::source_location::current()) {    \
    return laconic::emulation::in_warp(laconic::emulation::WarpCall::call, mask, value, 0, warpSize, at);      \
  }
LACONIC_REDUCE(__reduce_add_sync, unsigned, add)
LACONIC_REDUCE(__reduce_add_sync, int, add)
LACONIC_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
LACONIC_REDUCE(__reduce_min_sync, int, min_signed)
LACONIC_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
LACONIC_REDUCE(__reduce_max_sync, int, max_signed)
LACONIC_REDUCE(__reduce_and_sync, unsigned, bits_and)
LACONIC_REDUCE(__reduce_or_sync, unsigned, bits_or)
LACONIC_REDUCE(__reduce_xor_sync, unsigned, bits_xor)
#undef LACONIC_REDUCE

/// Which lanes run together is nobody's promise: here each runs alone.
inline unsigned __activemask() { return 1U << laconic::emulation::lane_of_thread(); }

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { laconic::emulation::yield_thread(); }
[[noreturn]] inline void __trap() { __builtin_trap(); }

// Bits and numbers.

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __uint_as_float(unsigned value) { return std::bit_cast<float>(value); }
inline float __int_as_float(int value) { return std::bit_cast<float>(value); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline double __longlong_as_double(long long value) { return std::bit_cast<double>(value); }

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __popcll(unsigned long long value) { return std::popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __clzll(long long value) { return std::countl_zero(static_cast<unsigned long long>(value)); }
inline unsigned long long __brevll(unsigned long long value) {
  unsigned long long reversed = 0;
  for (int bit = 0; bit < 64; ++bit) reversed |= (value >> bit & 1U) << (63 - bit);
  return reversed;
}
inline unsigned __brev(unsigned value) { return static_cast<unsigned>(__brevll(value) >> 32); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned choice) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = choice >> 4 * i & 0xFU;
    unsigned byte = static_cast<unsigned>(bytes >> 8 * (which & 7U)) & 0xFFU;
    if ((which & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xFFU : 0U;
    result |= byte << 8 * i;
  }
  return result;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(std::uint64_t{x} * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(Wide{x} * y >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (by & 31U) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (by & 31U));
}

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline int __float2int_rn(float x) { return static_cast<int>(__builtin_rintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline unsigned __float2uint_rz(float x) { return static_cast<unsigned>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Common>) return static_cast<Common>(__builtin_fmin(a, b));
  return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);
}
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
  using Common = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Common>) return static_cast<Common>(__builtin_fmax(a, b));
  return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);
}

// Loads and stores with a word to the caches.

#define LACONIC_LOAD(name)                 \
  template <class T>                       \
  T name(const T* from) {                  \
    return *from;                          \
  }
#define LACONIC_STORE(name)                                          \
  template <class T>                                                 \
  void name(T* to, std::type_identity_t<T> value) {                  \
    *to = value;                                                     \
  }
LACONIC_LOAD(__ldg)
LACONIC_LOAD(__ldca)
LACONIC_LOAD(__ldcg)
LACONIC_LOAD(__ldcs)
LACONIC_LOAD(__ldcv)
LACONIC_LOAD(__ldlu)
LACONIC_STORE(__stwb)
LACONIC_STORE(__stcg)
LACONIC_STORE(__stcs)
LACONIC_STORE(__stwt)
#undef LACONIC_LOAD
#undef LACONIC_STORE

// Atomics. They answer what was there before.

namespace laconic::emulation {
template <class T, class Change>
T change(T* memory, Change next) {
  T before;
  __atomic_load(memory, &before, __ATOMIC_RELAXED);
  T after = next(before);
  while (!__atomic_compare_exchange(memory, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    after = next(before);
  return before;
}
template <class T>  // not long: CUDA has no atomics of it
concept AtomicWord = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long long> ||
                     std::is_same_v<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicWord<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;
}  // namespace laconic::emulation

#define LACONIC_ATOMIC(name, kind, formula)                                           \
  template <laconic::emulation::kind T>                                               \
  T name(T* memory, std::type_identity_t<T> value) {                                  \
    return laconic::emulation::change(memory, [=](T before) -> T { return formula; }); \
  }
LACONIC_ATOMIC(atomicAdd, AtomicNumber, before + value)
LACONIC_ATOMIC(atomicSub, AtomicWord, before - value)
LACONIC_ATOMIC(atomicMin, AtomicWord, value < before ? value : before)
LACONIC_ATOMIC(atomicMax, AtomicWord, before < value ? value : before)
LACONIC_ATOMIC(atomicAnd, AtomicWord, before & value)
LACONIC_ATOMIC(atomicOr, AtomicWord, before | value)
LACONIC_ATOMIC(atomicXor, AtomicWord, before ^ value)
LACONIC_ATOMIC(atomicInc, AtomicWord, before >= value ? 0 : before + 1)
LACONIC_ATOMIC(atomicExch, AtomicNumber, (static_cast<void>(before), value))
#undef LACONIC_ATOMIC
template <laconic::emulation::AtomicWord T>
T atomicCAS(T* memory, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return laconic::emulation::change(memory, [=](T before) -> T { return before == expected ? value : before; });
}

// NOLINTEND
