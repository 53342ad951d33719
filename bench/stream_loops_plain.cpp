#include "bench/stream_loops.h"

#include <bit>

namespace laconic::bench::loops {

std::uint32_t read(const std::uint32_t* words, std::size_t count) {
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < count; ++i) result |= words[i];
  return result;
}

void add(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
}

void update(float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] += 0.5F;
}

void write(float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = 0.5F;
}

void narrow(const float* x, std::uint16_t* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x[i]) >> 17);
}

void widen(const std::uint16_t* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

void merge(const float* a, const float* b, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace laconic::bench::loops
