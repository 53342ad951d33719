#pragma once

// The layout of bitpack.h, one word, byte or field at a time, for kernels on a device.

#include "base/cuda/launch.h"
#include "base/cuda/words.h"
#include "kernels/bitpack/bitpack.h"

#ifdef __CUDACC__
namespace laconic::cuda {

inline __device__ std::uint32_t field_mask(unsigned bits) {
  return bits == 32 ? ~0U : (1U << bits) - 1;
}

/// `field` moved so that its bit 0, which is bit `at` of a stream, lies right for a piece that begins at bit `begin`.
inline __device__ std::uint32_t moved(std::uint32_t field, unsigned at, unsigned begin) {
  return at >= begin ? field << (at - begin) : field >> (begin - at);
}

/// Word `word` < 16·bits of a full group, whose fields are field(0) ... field(511). bits > 0.
template <class Field>
__device__ std::uint32_t packed_word(const Field& field, unsigned bits, unsigned word) {
  const unsigned lane = word % kPackLanes;
  const unsigned begin = word / kPackLanes * 32;  // in the lane's own stream of bits
  std::uint32_t packed = 0;
  for (unsigned row = begin / bits; row < kPackGroup / kPackLanes && row * bits < begin + 32; ++row) {
    packed |= moved(field(row * kPackLanes + lane) & field_mask(bits), row * bits, begin);
  }
  return packed;
}

/// Byte `byte` of the plain stream of n < 512 fields behind the last full group. bits > 0.
template <class Field>
__device__ std::byte packed_byte(const Field& field, unsigned n, unsigned bits, unsigned byte) {
  const unsigned begin = 8 * byte;
  std::uint32_t packed = 0;
  for (unsigned i = begin / bits; i < n && i * bits < begin + 8; ++i) {
    packed |= moved(field(i) & field_mask(bits), i * bits, begin);
  }
  return static_cast<std::byte>(packed);
}

/// Field i of a full group.
inline __device__ std::uint32_t field_of_group(const std::byte* group, unsigned bits, unsigned i) {
  if (bits == 0) return 0;
  const unsigned bit = i / kPackLanes * bits;
  const std::byte* at = group + (bit / 32 * kPackLanes + i % kPackLanes) * sizeof(std::uint32_t);
  std::uint64_t words = load_word(at);
  if (bit % 32 + bits > 32) words |= std::uint64_t{load_word(at + kPackLanes * sizeof(std::uint32_t))} << 32;
  return static_cast<std::uint32_t>(words >> bit % 32) & field_mask(bits);
}

/// Field i of the plain stream behind the last full group.
inline __device__ std::uint32_t field_of_stream(const std::byte* stream, unsigned bits, unsigned i) {
  const unsigned begin = i * bits;
  std::uint64_t found = 0;
  for (unsigned byte = begin / 8; byte * 8 < begin + bits; ++byte) {
    const auto value = static_cast<std::uint64_t>(stream[byte]);
    found |= byte * 8 >= begin ? value << (byte * 8 - begin) : value >> (begin - byte * 8);
  }
  return static_cast<std::uint32_t>(found) & field_mask(bits);
}

}  // namespace laconic::cuda
#endif
