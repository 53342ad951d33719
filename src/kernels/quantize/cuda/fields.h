#pragma once

// Packed fields on a device, in the layout of kernels/bitpack: a group of 512 values has 16 lanes, and a lane's 32
// values, sixteen apart, are `bits` whole words.

#include "base/cuda/launch.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/loops.h"

#ifdef __CUDACC__
namespace laconic::cuda {

inline __device__ float value_of(std::uint32_t field, float step, int bits) {
  const std::uint32_t sign = 1U << (bits - 1);
  const float magnitude = static_cast<float>(field & (sign - 1)) * step;
  return (field & sign) != 0 ? -magnitude : magnitude;
}

inline constexpr std::uint32_t kBitsOf128 = 0x43000000;

/// The same in two steps, for a field of a word that has whole fields in each byte. A multiprocessor converts integers,
/// compares and selects half as fast as it adds and multiplies, so nothing is converted: a byte with the magnitude
/// becomes the upper bits of 128's mantissa, which makes 128 + the magnitude, and the sign is put into the product.
/// `bits_of_128` is kBitsOf128 from a kernel's parameters. If the compiler knew its value, it would take an instruction
/// more per field.
template <int kBits>
__device__ float magnitude_and_128(std::uint32_t word, unsigned number, std::uint32_t bits_of_128) {
  static_assert(kBits == 4 || kBits == 8);
  constexpr unsigned kInByte = 8 / kBits;
  constexpr std::uint32_t kMagnitudes = 0x01010101U * ((1U << (kBits - 1)) - 1);  // of one field in each byte
  constexpr unsigned kZeroZeroByteHighest = 0x7044;  // of the result from below; the byte of the word is added
  const std::uint32_t magnitudes = word >> number % kInByte * kBits & kMagnitudes;
  return __uint_as_float(__byte_perm(magnitudes, bits_of_128, kZeroZeroByteHighest | number / kInByte << 8));
}
template <int kBits>
__device__ float with_sign_of_field(float value, std::uint32_t word, unsigned number) {
  const std::uint32_t sign = word << (32 - (number + 1) * kBits) & 0x8000'0000U;
  return __uint_as_float(__float_as_uint(value) ^ sign);
}

/// Blocks of threads for a part's full groups.
inline __host__ __device__ std::uint64_t group_blocks(std::uint64_t n) {
  return (n / kPackGroup * kPackLanes + kThreads - 1) / kThreads;
}

/// Where a thread's lane begins among the values of a part and in its packed groups.
struct Lane {
  std::uint64_t group;
  std::uint64_t value;

  explicit __device__ Lane(unsigned block)
      : group((std::uint64_t{block} * kThreads + threadIdx.x) / kPackLanes),
        value(group * kPackGroup + threadIdx.x % kPackLanes) {}

  __device__ std::uint64_t word_offset(int bits) const {
    return group * packed_bytes(kPackGroup, bits) + threadIdx.x % kPackLanes * sizeof(std::uint32_t);
  }
};

inline constexpr std::uint64_t kNextWord = kPackLanes * sizeof(std::uint32_t);

/// Field i of fewer than 512, which are one sequence of bits. Bits above it may be set.
inline __device__ std::uint32_t field_at(const std::byte* packed, std::uint32_t i, int bits) {
  const std::uint32_t begin = i * static_cast<std::uint32_t>(bits);
  const std::uint32_t end = begin + static_cast<std::uint32_t>(bits);
  std::uint32_t field = 0;
  for (std::uint32_t byte = begin / 8; byte * 8 < end; ++byte) {
    const auto found = static_cast<std::uint32_t>(packed[byte]);
    field |= byte * 8 >= begin ? found << (byte * 8 - begin) : found >> (begin - byte * 8);
  }
  return field;
}

}  // namespace laconic::cuda
#endif
