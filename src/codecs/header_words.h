#pragma once

// Headers in a device's memory. Payloads begin at multiples of 4 bytes, and headers have numbers of 8.

#include <cstring>

#include "base/cuda/launch.h"
#include "codecs/payload.h"

#ifdef __CUDACC__
namespace laconic::cuda {

inline constexpr unsigned kHeaderWords = sizeof(PayloadHeader) / sizeof(std::uint32_t);

inline __device__ PayloadHeader load_header(const std::byte* payload) {
  std::uint32_t words[kHeaderWords];
  for (unsigned i = 0; i < kHeaderWords; ++i) words[i] = reinterpret_cast<const std::uint32_t*>(payload)[i];
  PayloadHeader header;
  std::memcpy(&header, words, sizeof(header));
  return header;
}

inline __device__ void store_header(const PayloadHeader& header, std::byte* payload) {
  std::uint32_t words[kHeaderWords];
  std::memcpy(words, &header, sizeof(header));
  for (unsigned i = 0; i < kHeaderWords; ++i) reinterpret_cast<std::uint32_t*>(payload)[i] = words[i];
}

}  // namespace laconic::cuda
#endif
