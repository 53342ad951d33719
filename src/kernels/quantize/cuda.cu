#include "base/cuda/launch.h"
#include "base/cuda/words.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/loops.h"

// Twins of kernels/quantize: the reference's formulas, on the layout of kernels/bitpack. A thread owns one lane of one
// group: 32 values, sixteen apart, which become or come from `bits` whole words. The values after the last full group
// are a second, tiny launch. The norm is read where it lies, so nothing waits for it.

namespace laconic::cuda {
namespace {

constexpr unsigned kDrawRows = 8;  ///< rows of a lane that one block of Philox serves
constexpr unsigned kParts = kPackGroup / kPackLanes / kDrawRows;

/// r in units of 2^-16.
__device__ float units_of(float value, const QuantizeScale& scale) {
  const float exact = fabsf(value) * scale.scale * scale.multiplier;
  const float r = exact < scale.levels ? exact : scale.levels;  // NaN becomes the highest level
  return r * 65536.0F;
}

__device__ bool carries(float units, const RandomStream& rounding, std::uint64_t i) {
  const auto rest = static_cast<std::uint32_t>((units - floorf(units)) * 65536.0F);
  return rest + draw16(tail_stream(rounding), i) >= 65536;
}

/// The field of value i of the tensor; `random` is its draw16.
__device__ std::uint32_t field_of(float value, std::uint32_t random, const QuantizeScale& scale,
                                  const Quantizer& quantizer, std::uint64_t i) {
  const float units = units_of(value, scale);
  const std::uint32_t sum = static_cast<std::uint32_t>(units) + random;
  const bool tie = (sum & 0xFFFF) == 0xFFFF;
  const std::uint32_t level = (sum >> 16) + (tie && carries(units, quantizer.rounding, i) ? 1U : 0U);
  // -0 is plus. Adding 0, as the reference does, would drop a NaN's sign here.
  const std::uint32_t negative = value == 0.0F ? 0U : __float_as_uint(value) >> 31;
  return level | negative << (quantizer.bits - 1);
}

__device__ float value_of(std::uint32_t field, float step, int bits) {
  const std::uint32_t sign = 1U << (bits - 1);
  const float magnitude = static_cast<float>(field & (sign - 1)) * step;
  return (field & sign) != 0 ? -magnitude : magnitude;
}

/// Where a thread's lane begins among the values and in the packed groups.
struct Lane {
  std::uint64_t group = thread_index() / kPackLanes;
  std::uint64_t value = group * kPackGroup + thread_index() % kPackLanes;

  __device__ std::uint64_t word_offset(int bits) const {
    return group * packed_bytes(kPackGroup, bits) + thread_index() % kPackLanes * sizeof(std::uint32_t);
  }
};
constexpr std::uint64_t kNextWord = kPackLanes * sizeof(std::uint32_t);

template <int kBits>
__global__ void quantize_groups(const float* values, std::uint64_t groups, const float* norm, Quantizer quantizer,
                                std::byte* packed) {
  const Lane lane;
  if (lane.group >= groups) return;
  if constexpr (kBits != 0) quantizer.bits = kBits;
  const bool zero = !(*norm > 0.0F);
  const QuantizeScale scale = quantize_scale(*norm, quantizer.bits);
  const float* column = values + lane.value;
  std::byte* to = packed + lane.word_offset(quantizer.bits);
  std::uint32_t word = 0;
  int filled = 0;
#pragma unroll
  for (unsigned part = 0; part < kParts; ++part) {
    const std::uint64_t first = quantizer.first + lane.value + part * kDrawRows * kPackLanes;
    float rows[kDrawRows];  // read before the branches below, so that all are under way at once
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) rows[row] = column[(part * kDrawRows + row) * kPackLanes];
    const PhiloxBlock random = quantizer.rounding.block(first / 128 * 16 + first % 16);  // as draw16 has it
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) {
      const std::uint32_t draw = random[row / 2] >> row % 2 * 16 & 0xFFFF;
      const std::uint32_t field = zero ? 0 : field_of(rows[row], draw, scale, quantizer, first + row * kPackLanes);
      word |= field << filled;
      filled += quantizer.bits;
      if (filled < 32) continue;
      store_word(to, word);
      to += kNextWord;
      filled -= 32;
      word = field >> (quantizer.bits - filled);  // what did not fit
    }
  }
}

/// Fewer than 512 fields as one bit stream: a thread a byte, which up to five fields share.
__global__ void quantize_rest(const float* values, std::uint32_t n, const float* norm, Quantizer quantizer,
                              std::byte* packed) {
  const auto byte = static_cast<std::uint32_t>(thread_index());
  const auto bits = static_cast<std::uint32_t>(quantizer.bits);
  if (byte >= packed_bytes(n, quantizer.bits)) return;
  const bool zero = !(*norm > 0.0F);
  const QuantizeScale scale = quantize_scale(*norm, quantizer.bits);
  std::uint32_t value = 0;
  for (std::uint32_t i = 8 * byte / bits; i < n && i * bits < 8 * byte + 8; ++i) {
    const std::uint64_t index = quantizer.first + i;
    const std::uint32_t field =
        zero ? 0 : field_of(values[i], draw16(quantizer.rounding, index), scale, quantizer, index);
    value |= i * bits >= 8 * byte ? field << (i * bits - 8 * byte) : field >> (8 * byte - i * bits);
  }
  packed[byte] = static_cast<std::byte>(value);
}

__global__ void dequantize_groups(const std::byte* packed, std::uint64_t groups, const float* norm, int bits,
                                  float* values) {
  const Lane lane;
  if (lane.group >= groups) return;
  const float step = quantize_step(*norm, bits);
  const std::byte* from = packed + lane.word_offset(bits);
  float* column = values + lane.value;
  std::uint64_t pending = 0;
  int filled = 0;
#pragma unroll
  for (unsigned row = 0; row < kPackGroup / kPackLanes; ++row) {
    if (filled < bits) {
      pending |= std::uint64_t{load_word(from)} << filled;
      from += kNextWord;
      filled += 32;
    }
    float& value = column[row * kPackLanes];
    value = value + value_of(static_cast<std::uint32_t>(pending), step, bits);
    pending >>= bits;
    filled -= bits;
  }
}

__global__ void dequantize_rest(const std::byte* packed, std::uint32_t n, const float* norm, int bits, float* values) {
  const auto i = static_cast<std::uint32_t>(thread_index());
  if (i >= n) return;
  const std::uint32_t begin = i * static_cast<std::uint32_t>(bits);
  const std::uint32_t end = begin + static_cast<std::uint32_t>(bits);
  std::uint32_t field = 0;
  for (std::uint32_t byte = begin / 8; byte * 8 < end; ++byte) {
    const auto found = static_cast<std::uint32_t>(packed[byte]);
    field |= byte * 8 >= begin ? found << (byte * 8 - begin) : found >> (begin - byte * 8);
  }
  values[i] = values[i] + value_of(field, quantize_step(*norm, bits), bits);
}

}  // namespace

void quantize(Place& place, View<const float> values, View<const float> norm, const Quantizer& quantizer,
              View<std::byte> packed) {
  const Launch launch(place, "quantize");
  const std::uint64_t groups = values.size() / kPackGroup;
  if (groups > 0) {
    // The usual widths are known to the compiler; the others share one kernel.
    const auto kernel = quantizer.bits == 4   ? quantize_groups<4>
                        : quantizer.bits == 8 ? quantize_groups<8>
                                              : quantize_groups<0>;
    kernel<<<blocks_for(groups * kPackLanes, 1), kThreads, 0, launch.stream()>>>(values.data(), groups, norm.data(),
                                                                                 quantizer, packed.data());
    launch.check();
  }
  const std::uint64_t done = groups * kPackGroup;
  if (done == values.size()) return;
  Quantizer rest = quantizer;
  rest.first += done;
  const auto left = static_cast<std::uint32_t>(values.size() - done);
  quantize_rest<<<blocks_for(packed_bytes(left, rest.bits), 1), kThreads, 0, launch.stream()>>>(
      values.data() + done, left, norm.data(), rest, packed.data() + packed_bytes(done, rest.bits));
  launch.check();
}

void dequantize_add(Place& place, View<const std::byte> packed, View<const float> norm, int bits, View<float> values) {
  const Launch launch(place, "dequantize_add");
  const std::uint64_t groups = values.size() / kPackGroup;
  if (groups > 0) {
    dequantize_groups<<<blocks_for(groups * kPackLanes, 1), kThreads, 0, launch.stream()>>>(
        packed.data(), groups, norm.data(), bits, values.data());
    launch.check();
  }
  const std::uint64_t done = groups * kPackGroup;
  if (done == values.size()) return;
  const auto left = static_cast<std::uint32_t>(values.size() - done);
  dequantize_rest<<<blocks_for(left, 1), kThreads, 0, launch.stream()>>>(packed.data() + packed_bytes(done, bits), left,
                                                                         norm.data(), bits, values.data() + done);
  launch.check();
}

}  // namespace laconic::cuda
