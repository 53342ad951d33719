#include "bench/stream_loops.h"

#include <bit>

#include "kernels/clones.h"

namespace laconic::bench::loops {
namespace {

/// Whatever level the kernels are forced to.
SimdLevel best() {
  static const SimdLevel level = simd_available(SimdLevel::avx512) ? SimdLevel::avx512
                                 : simd_available(SimdLevel::avx2) ? SimdLevel::avx2
                                                                   : SimdLevel::portable;
  return level;
}

/// Four places at once: one alone is held back by the lines that a core can wait for, not by the memory.
LACONIC_INLINE std::uint32_t read_loop(const std::uint32_t* words, std::size_t count) {
  const std::size_t quarter = count / 4;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  for (std::size_t i = 0; i < quarter; ++i) {
    a |= words[i];
    b |= words[i + quarter];
    c |= words[i + 2 * quarter];
    d |= words[i + 3 * quarter];
  }
  std::uint32_t result = a | b | c | d;
  for (std::size_t i = 4 * quarter; i < count; ++i) result |= words[i];
  return result;
}

LACONIC_INLINE void add_loop(const float* x, float* y, std::size_t count) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
}

LACONIC_INLINE void update_loop(float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] += 0.5F;
}

LACONIC_INLINE void write_loop(float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = 0.5F;
}

LACONIC_INLINE void narrow_loop(const float* x, std::uint16_t* y, std::size_t count) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x[i]) >> 16);
}

LACONIC_INLINE void widen_loop(const std::uint16_t* x, float* y, std::size_t count) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

LACONIC_INLINE void merge_loop(const float* a, const float* b, float* out, std::size_t count) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

std::uint32_t read(const std::uint32_t* words, std::size_t count) { return Clones<read_loop>::run(best(), words, count); }
void add(const float* x, float* y, std::size_t count) { Clones<add_loop>::run(best(), x, y, count); }
void update(float* y, std::size_t count) { Clones<update_loop>::run(best(), y, count); }
void write(float* y, std::size_t count) { Clones<write_loop>::run(best(), y, count); }
void narrow(const float* x, std::uint16_t* y, std::size_t count) { Clones<narrow_loop>::run(best(), x, y, count); }
void widen(const std::uint16_t* x, float* y, std::size_t count) { Clones<widen_loop>::run(best(), x, y, count); }
void merge(const float* a, const float* b, float* out, std::size_t count) {
  Clones<merge_loop>::run(best(), a, b, out, count);
}

}  // namespace laconic::bench::loops
