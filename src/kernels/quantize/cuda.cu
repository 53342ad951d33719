#include "base/cuda/parts.h"
#include "base/cuda/words.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/loops.h"

// Twins of kernels/quantize: the reference's formulas, on the layout of kernels/bitpack. A thread owns one lane of one
// group: 32 values, sixteen apart, which become or come from `bits` whole words. The values after the last full group
// of each part are a second, small launch. The norm is read where it lies, so nothing waits for it.

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

struct QuantizePart {
  const float* values;
  const float* norm;
  std::byte* packed;
  std::uint64_t n;
  std::uint64_t first;
  std::uint32_t tensor;
  std::uint32_t filling;  ///< bytes behind the fields
};

struct DequantizePart {
  const std::byte* packed;
  const float* norm;
  float* values;
  std::uint64_t n;
};

/// Blocks of threads for a part's full groups.
__host__ __device__ std::uint64_t group_blocks(std::uint64_t n) {
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
constexpr std::uint64_t kNextWord = kPackLanes * sizeof(std::uint32_t);

__device__ void quantize_lane(const Lane& lane, const float* values, std::uint64_t groups, const float* norm,
                              const Quantizer& quantizer, std::byte* packed) {
  if (lane.group >= groups) return;
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

// kBits is 0 if they are in the quantizer alone.

/// One part. What is the same in all of its threads takes no registers here, so that more threads run at once.
template <int kBits>
__global__ void quantize_groups(const float* values, std::uint64_t groups, const float* norm, Quantizer quantizer,
                                std::byte* packed) {
  if constexpr (kBits != 0) quantizer.bits = kBits;
  quantize_lane(Lane(blockIdx.x), values, groups, norm, quantizer, packed);
}

/// The quantizer has all but the tensor and the place in it.
template <int kBits>
__global__ void quantize_groups_of_parts(const __grid_constant__ Parts<QuantizePart> parts, Quantizer quantizer) {
  const unsigned number = parts.of_block();
  const QuantizePart& part = parts.items[number];
  if constexpr (kBits != 0) quantizer.bits = kBits;
  quantizer.rounding.tensor = part.tensor;
  quantizer.first = part.first;
  quantize_lane(Lane(parts.block_in(number)), part.values, part.n / kPackGroup, part.norm, quantizer, part.packed);
}

/// Fewer than 512 fields as one bit stream: a thread has every 256th byte, which up to five fields share.
__global__ void quantize_rest(const __grid_constant__ Parts<QuantizePart> parts, Quantizer quantizer) {
  const QuantizePart& part = parts.items[blockIdx.x];
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  const float* values = part.values + done;
  const auto n = static_cast<std::uint32_t>(part.n - done);
  std::byte* packed = part.packed + packed_bytes(done, quantizer.bits);
  quantizer.rounding.tensor = part.tensor;
  quantizer.first = part.first + done;
  const auto bits = static_cast<std::uint32_t>(quantizer.bits);
  const float norm = *part.norm;
  const bool zero = !(norm > 0.0F);
  const QuantizeScale scale = quantize_scale(norm, quantizer.bits);
  const auto bytes = static_cast<std::uint32_t>(packed_bytes(n, quantizer.bits));
  for (std::uint32_t byte = threadIdx.x; byte < bytes + part.filling; byte += kThreads) {
    std::uint32_t value = 0;
    for (std::uint32_t i = 8 * byte / bits; i < n && i * bits < 8 * byte + 8; ++i) {
      const std::uint64_t index = quantizer.first + i;
      const std::uint32_t field =
          zero ? 0 : field_of(values[i], draw16(quantizer.rounding, index), scale, quantizer, index);
      value |= i * bits >= 8 * byte ? field << (i * bits - 8 * byte) : field >> (8 * byte - i * bits);
    }
    packed[byte] = static_cast<std::byte>(value);
  }
}

__device__ void dequantize_groups(const DequantizePart& part, unsigned block, int bits) {
  const Lane lane(block);
  if (lane.group >= part.n / kPackGroup) return;
  const float step = quantize_step(*part.norm, bits);
  const std::byte* from = part.packed + lane.word_offset(bits);
  float* column = part.values + lane.value;
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

__device__ void dequantize_rest(const DequantizePart& part, int bits) {
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  const std::byte* packed = part.packed + packed_bytes(done, bits);
  const float step = quantize_step(*part.norm, bits);
  for (std::uint32_t i = threadIdx.x; i < part.n - done; i += kThreads) {
    const std::uint32_t begin = i * static_cast<std::uint32_t>(bits);
    const std::uint32_t end = begin + static_cast<std::uint32_t>(bits);
    std::uint32_t field = 0;
    for (std::uint32_t byte = begin / 8; byte * 8 < end; ++byte) {
      const auto found = static_cast<std::uint32_t>(packed[byte]);
      field |= byte * 8 >= begin ? found << (byte * 8 - begin) : found >> (begin - byte * 8);
    }
    float& value = part.values[done + i];
    value = value + value_of(field, step, bits);
  }
}

__global__ void dequantize_kernel(const __grid_constant__ Parts<DequantizePart> parts, int bits) {
  const unsigned number = parts.of_block();
  const DequantizePart part = parts.items[number];
  const unsigned block = parts.block_in(number);
  if (block < group_blocks(part.n)) {
    dequantize_groups(part, block, bits);
  } else {
    dequantize_rest(part, bits);
  }
}

/// The usual widths are known to the compiler; the others share one kernel.
template <int kBits>
void launch_groups(const Launch& launch, const Parts<QuantizePart>& parts, unsigned blocks, Quantizer quantizer) {
  if (parts.count == 1) {
    const QuantizePart& part = parts.items[0];
    quantizer.rounding.tensor = part.tensor;
    quantizer.first = part.first;
    quantize_groups<kBits><<<blocks, kThreads, 0, launch.stream()>>>(part.values, part.n / kPackGroup, part.norm,
                                                                     quantizer, part.packed);
  } else {
    quantize_groups_of_parts<kBits><<<blocks, kThreads, 0, launch.stream()>>>(parts, quantizer);
  }
  launch.check();
}

}  // namespace

void quantize(Place& place, Each<QuantizeSlice> slices, int bits, const RandomStream& rounding) {
  const Launch launch(place, "quantize");
  const Quantizer quantizer{bits, rounding, 0};
  const auto give_groups = [&](const Parts<QuantizePart>& parts, unsigned blocks) {
    const auto launch_them = bits == 4 ? launch_groups<4> : bits == 8 ? launch_groups<8> : launch_groups<0>;
    launch_them(launch, parts, blocks, quantizer);
  };
  const auto give_rests = [&](const Parts<QuantizePart>& parts, unsigned blocks) {
    quantize_rest<<<blocks, kThreads, 0, launch.stream()>>>(parts, quantizer);
    launch.check();
  };
  PartBatches<QuantizePart, decltype(give_groups)> groups(give_groups);
  PartBatches<QuantizePart, decltype(give_rests)> rests(give_rests);
  slices([&](const QuantizeSlice& slice) {
    const std::uint64_t n = slice.values.size();
    const auto filling = static_cast<std::uint32_t>(slice.packed.size() - packed_bytes(n, bits));
    const QuantizePart part{slice.values.data(), slice.norm.data(), slice.packed.data(), n,
                            slice.first,         slice.tensor,      filling};
    groups.add(part, group_blocks(n));
    rests.add(part, n % kPackGroup != 0 || filling != 0 ? 1 : 0);
  });
  groups.finish();
  rests.finish();
}

void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits) {
  const Launch launch(place, "dequantize_add");
  const auto give = [&](const Parts<DequantizePart>& parts, unsigned blocks) {
    dequantize_kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, bits);
    launch.check();
  };
  PartBatches<DequantizePart, decltype(give)> batches(give);
  slices([&](const DequantizeSlice& slice) {
    const std::uint64_t n = slice.values.size();
    batches.add({slice.packed.data(), slice.norm.data(), slice.values.data(), n},
                group_blocks(n) + (n % kPackGroup != 0 ? 1 : 0));
  });
  batches.finish();
}

}  // namespace laconic::cuda
