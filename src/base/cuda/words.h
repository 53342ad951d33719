#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
namespace laconic::cuda {

// Words of payloads. Payloads lie at multiples of four bytes, but a view may begin anywhere.

inline __device__ bool begins_a_word(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(std::uint32_t) == 0;
}

inline __device__ void store_word(std::byte* to, std::uint32_t word) {
  if (begins_a_word(to)) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
    return;
  }
  for (unsigned byte = 0; byte < sizeof(word); ++byte) to[byte] = static_cast<std::byte>(word >> 8 * byte);
}

/// The first `count` bytes of a word, the others zero.
inline __device__ std::uint32_t load_bytes(const std::byte* from, unsigned count) {
  std::uint32_t word = 0;
  for (unsigned byte = 0; byte < count; ++byte) word |= static_cast<std::uint32_t>(from[byte]) << 8 * byte;
  return word;
}

inline __device__ std::uint32_t load_word(const std::byte* from) {
  if (begins_a_word(from)) return *reinterpret_cast<const std::uint32_t*>(from);
  return load_bytes(from, sizeof(std::uint32_t));
}

}  // namespace laconic::cuda
#endif
