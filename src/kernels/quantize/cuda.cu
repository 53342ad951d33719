#include <algorithm>

#include "base/cuda/parts.h"
#include "base/cuda/words.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/quantize/cuda/fields.h"

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
  return fminf(exact, scale.levels) * 65536.0F;  // NaN becomes the highest level
}

__device__ bool carries(float units, const RandomStream& rounding, std::uint64_t i) {
  const auto rest = static_cast<std::uint32_t>((units - floorf(units)) * 65536.0F);
  return rest + draw16(tail_stream(rounding), i) >= 65536;
}

/// The sign of a field. That of -0 is plus.
__device__ std::uint32_t sign_of(float value, const QuantizeScale& scale) {
  return __float_as_uint(value) > 0x8000'0000U ? scale.sign_mask : 0U;
}

/// The field of value i of the tensor; `random` is its draw16.
__device__ std::uint32_t field_of(float value, std::uint32_t random, const QuantizeScale& scale,
                                  const Quantizer& quantizer, std::uint64_t i) {
  const float units = units_of(value, scale);
  const bool nearest = quantizer.kind == Rounding::nearest;
  const std::uint32_t sum = static_cast<std::uint32_t>(units) + (nearest ? kHalfLevel : random);
  const bool tie = !nearest && (sum & 0xFFFF) == 0xFFFF;
  const std::uint32_t level = (sum >> 16) + (tie && carries(units, quantizer.rounding, i) ? 1U : 0U);
  return level | sign_of(value, scale);
}

/// Which of the rows that tie carry. Few do, so their values are read again.
template <class Number>
__device__ std::uint32_t carried_rows(std::uint32_t ties, const Number* column, const QuantizeScale& scale,
                                      const RandomStream& rounding, std::uint64_t first) {
  std::uint32_t carried = 0;
#pragma unroll 1
  for (; ties != 0; ties &= ties - 1) {
    const auto row = static_cast<unsigned>(__ffs(static_cast<int>(ties))) - 1;
    const float units = units_of(widened(column[row * kPackLanes]), scale);
    carried |= carries(units, rounding, first + row * kPackLanes) ? 1U << row : 0U;
  }
  return carried;
}

/// The fields of kRows rows of a lane. What is to be added to their units is in `fields`. Ties are decided after all of
/// them: inlined in each row, that rare code would be most of the kernel.
template <unsigned kRows, class Number>
__device__ void make_fields(const float (&rows)[kRows], const Number* column, const QuantizeScale& scale,
                            const Quantizer& quantizer, std::uint64_t first, std::uint32_t (&fields)[kRows]) {
  std::uint32_t ties = 0;
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) {
    const std::uint32_t sum = static_cast<std::uint32_t>(units_of(rows[row], scale)) + fields[row];
    ties |= (sum & 0xFFFF) == 0xFFFF ? 1U << row : 0U;
    fields[row] = sum >> 16;
  }
  if (ties != 0 && quantizer.kind == Rounding::stochastic) {
    const std::uint32_t carried = carried_rows(ties, column, scale, quantizer.rounding, first);
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) fields[row] += carried >> row & 1;
  }
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) fields[row] |= sign_of(rows[row], scale);
}

/// A value less what its field stands for.
__device__ float rest_of(float value, std::uint32_t field, const QuantizeScale& scale) {
  const float magnitude = static_cast<float>(field & ~scale.sign_mask) * scale.step;
  return value - ((field & scale.sign_mask) != 0 ? -magnitude : magnitude);
}

template <class Number>
struct QuantizePart {
  const Number* values;
  const float* norms;
  std::byte* packed;
  std::uint64_t n;
  std::uint64_t first;
  std::uint32_t tensor;
  std::uint32_t filling;  ///< bytes behind the fields
  float* rest;            ///< null: not wanted
};

struct DequantizePart {
  const std::byte* packed;
  const float* norms;
  float* values;
  std::uint64_t n;
};

/// Packs the fields of a lane, row after row.
struct LaneWriter {
  std::byte* to;
  int bits;
  std::uint32_t word = 0;
  int filled = 0;

  __device__ void append(std::uint32_t field) {
    word |= field << filled;
    filled += bits;
    if (filled < 32) return;
    store_word(to, word);
    to += kNextWord;
    filled -= 32;
    word = field >> (bits - filled);  // what did not fit
  }
};

template <class Number>
__device__ void quantize_lane(const Lane& lane, const Number* values, std::uint64_t groups, const float* norm,
                              const Quantizer& quantizer, std::byte* packed) {
  if (lane.group >= groups) return;
  const QuantizeScale scale = scope_scale(*norm, quantizer.bits);
  const Number* column = values + lane.value;
  LaneWriter writer{packed + lane.word_offset(quantizer.bits), quantizer.bits};
#pragma unroll
  for (unsigned part = 0; part < kParts; ++part, column += kDrawRows * kPackLanes) {
    const std::uint64_t first = quantizer.first + lane.value + part * kDrawRows * kPackLanes;
    float rows[kDrawRows];
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) rows[row] = widened(column[row * kPackLanes]);
    const PhiloxBlock random = quantizer.rounding.block(first / 128 * 16 + first % 16);  // as draw16 has it
    std::uint32_t fields[kDrawRows];
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) fields[row] = random[row / 2] >> row % 2 * 16 & 0xFFFF;
    make_fields(rows, column, scale, quantizer, first, fields);
#pragma unroll
    for (unsigned row = 0; row < kDrawRows; ++row) writer.append(fields[row]);
  }
}

/// A lane of a part with fixed scopes, rounding to nearest, or a rest. No scope is smaller than half of the rows that
/// one block of Philox serves; one that is larger than a group has a single norm there.
template <class Number>
__device__ void quantize_scopes_lane(const Lane& lane, const QuantizePart<Number>& part, const Quantizer& quantizer,
                                     int shift) {
  if (lane.group >= part.n / kPackGroup) return;
  constexpr unsigned kRows = kDrawRows / 2;
  LaneWriter writer{part.packed + lane.word_offset(quantizer.bits), quantizer.bits};
  QuantizeScale scale{};
  PhiloxBlock random{};
#pragma unroll
  for (unsigned half = 0; half < 2 * kParts; ++half) {
    const std::uint64_t in_part = lane.value + half * kRows * kPackLanes;
    const std::uint64_t row_begin = in_part / kPackLanes * kPackLanes;
    if (half == 0 || (row_begin & ((std::uint64_t{1} << shift) - 1)) == 0) {
      scale = scope_scale(part.norms[row_begin >> shift], quantizer.bits);
    }
    float rows[kRows];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) rows[row] = widened(part.values[in_part + row * kPackLanes]);
    const std::uint64_t first = quantizer.first + in_part;
    if (half % 2 == 0 && quantizer.kind == Rounding::stochastic) {
      random = quantizer.rounding.block(first / 128 * 16 + first % 16);  // as draw16 has it
    }
    std::uint32_t fields[kRows];
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      const std::uint32_t draw = random[half % 2 * 2 + row / 2] >> row % 2 * 16 & 0xFFFF;
      fields[row] = quantizer.kind == Rounding::nearest ? kHalfLevel : draw;
    }
    make_fields(rows, part.values + in_part, scale, quantizer, first, fields);
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      writer.append(fields[row]);
      if (part.rest != nullptr) part.rest[in_part + row * kPackLanes] = rest_of(rows[row], fields[row], scale);
    }
  }
}

// kBits is 0 if they are in the quantizer alone.

/// One part. What is the same in all of its threads takes no registers here, so that more threads run at once: six
/// blocks per multiprocessor are a tenth faster than four. Widths that the compiler does not know would spill then, and so
/// would float16, which takes longer to widen.
template <int kBits, class Number>
__global__ void __launch_bounds__(kThreads, kBits == 0 || std::is_same_v<Number, Half> ? 4 : 6)
quantize_groups(const Number* values, std::uint64_t groups, const float* norm, Quantizer quantizer, std::byte* packed) {
  if constexpr (kBits != 0) quantizer.bits = kBits;
  quantize_lane(Lane(blockIdx.x), values, groups, norm, quantizer, packed);
}

/// The quantizer has all but the tensor and the place in it.
template <int kBits, class Number>
__global__ void quantize_groups_of_parts(const __grid_constant__ Parts<QuantizePart<Number>> parts,
                                         Quantizer quantizer) {
  const unsigned number = parts.of_block();
  const QuantizePart<Number>& part = parts.items[number];
  if constexpr (kBits != 0) quantizer.bits = kBits;
  quantizer.rounding.tensor = part.tensor;
  quantizer.first = part.first;
  quantize_lane(Lane(parts.block_in(number)), part.values, part.n / kPackGroup, part.norms, quantizer, part.packed);
}

template <int kBits, class Number>
__global__ void quantize_scopes(const __grid_constant__ Parts<QuantizePart<Number>> parts, Quantizer quantizer,
                                int shift) {
  const unsigned number = parts.of_block();
  const QuantizePart<Number>& part = parts.items[number];
  if constexpr (kBits != 0) quantizer.bits = kBits;
  quantizer.rounding.tensor = part.tensor;
  quantizer.first = part.first;
  quantize_scopes_lane(Lane(parts.block_in(number)), part, quantizer, shift);
}

/// Fewer than 512 fields as one bit stream: a thread has every 256th byte, which up to five fields share.
template <class Number>
__global__ void quantize_rest(const __grid_constant__ Parts<QuantizePart<Number>> parts, Quantizer quantizer,
                              int shift) {
  const QuantizePart<Number>& part = parts.items[blockIdx.x];
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  const Number* values = part.values + done;
  const auto n = static_cast<std::uint32_t>(part.n - done);
  std::byte* packed = part.packed + packed_bytes(done, quantizer.bits);
  quantizer.rounding.tensor = part.tensor;
  quantizer.first = part.first + done;
  const auto bits = static_cast<std::uint32_t>(quantizer.bits);
  const auto bytes = static_cast<std::uint32_t>(packed_bytes(n, quantizer.bits));
  for (std::uint32_t byte = threadIdx.x; byte < bytes + part.filling; byte += kThreads) {
    std::uint32_t value = 0;
    for (std::uint32_t i = 8 * byte / bits; i < n && i * bits < 8 * byte + 8; ++i) {
      const std::uint64_t index = quantizer.first + i;
      const QuantizeScale scale = scope_scale(part.norms[(done + i) >> shift], quantizer.bits);
      const std::uint32_t field =
          field_of(widened(values[i]), draw16(quantizer.rounding, index), scale, quantizer, index);
      value |= i * bits >= 8 * byte ? field << (i * bits - 8 * byte) : field >> (8 * byte - i * bits);
      if (part.rest != nullptr) part.rest[done + i] = rest_of(widened(values[i]), field, scale);
    }
    packed[byte] = static_cast<std::byte>(value);
  }
}

template <bool kScopes>
__device__ void dequantize_groups(const DequantizePart& part, unsigned block, int bits, int shift) {
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  const Lane lane(block);
  if (lane.group >= part.n / kPackGroup) return;
  const std::uint64_t group = lane.group * kPackGroup;
  float step = quantize_step(part.norms[group >> shift], bits);
  const std::byte* from = part.packed + lane.word_offset(bits);
  float* column = part.values + lane.value;
  std::uint64_t pending = 0;
  int filled = 0;
#pragma unroll
  for (unsigned row = 0; row < kPackGroup / kPackLanes; ++row) {
    if (kScopes && row > 0 && row % kRowsOfScope == 0) {
      const std::uint64_t at = group + row * kPackLanes;
      if ((at & ((std::uint64_t{1} << shift) - 1)) == 0) step = quantize_step(part.norms[at >> shift], bits);
    }
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

__device__ void dequantize_rest(const DequantizePart& part, int bits, int shift) {
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  const std::byte* packed = part.packed + packed_bytes(done, bits);
  for (std::uint32_t i = threadIdx.x; i < part.n - done; i += kThreads) {
    float& value = part.values[done + i];
    value = value + value_of(field_at(packed, i, bits), quantize_step(part.norms[(done + i) >> shift], bits), bits);
  }
}

template <bool kScopes>
__global__ void dequantize_kernel(const __grid_constant__ Parts<DequantizePart> parts, int bits, int shift) {
  const unsigned number = parts.of_block();
  const DequantizePart part = parts.items[number];
  const unsigned block = parts.block_in(number);
  if (block < group_blocks(part.n)) {
    dequantize_groups<kScopes>(part, block, bits, shift);
  } else {
    dequantize_rest(part, bits, shift);
  }
}

/// Whether all that is asked for is drawn rounding with one norm for each part.
template <class Number>
bool is_simple(const Quantizer& quantizer, const QuantizePart<Number>& part) {
  return quantizer.scope == 0 && quantizer.kind == Rounding::stochastic && part.rest == nullptr;
}

/// The usual widths are known to the compiler; the others share one kernel. Either all parts have a rest or none has.
template <int kBits, class Number>
void launch_groups(const Launch& launch, const Parts<QuantizePart<Number>>& parts, unsigned blocks,
                   Quantizer quantizer) {
  const QuantizePart<Number>& part = parts.items[0];
  if (!is_simple(quantizer, part)) {
    quantize_scopes<kBits, Number><<<blocks, kThreads, 0, launch.stream()>>>(parts, quantizer, scope_shift(quantizer.scope));
  } else if (parts.count == 1) {
    quantizer.rounding.tensor = part.tensor;
    quantizer.first = part.first;
    quantize_groups<kBits, Number><<<blocks, kThreads, 0, launch.stream()>>>(
        part.values, part.n / kPackGroup, part.norms, quantizer, part.packed);
  } else {
    quantize_groups_of_parts<kBits, Number><<<blocks, kThreads, 0, launch.stream()>>>(parts, quantizer);
  }
  launch.check();
}

}  // namespace

void quantize(Place& place, Each<QuantizeSlice> slices, const Quantizer& quantizer) {
  const Launch launch(place, "quantize");
  const int bits = quantizer.bits;
  with_number_of(slices, [&]<class Number>(Number) {
    using Part = QuantizePart<Number>;
    const auto give_groups = [&](const Parts<Part>& parts, unsigned blocks) {
      const auto launch_them = bits == 4   ? launch_groups<4, Number>
                               : bits == 8 ? launch_groups<8, Number>
                                           : launch_groups<0, Number>;
      launch_them(launch, parts, blocks, quantizer);
    };
    const auto give_rests = [&](const Parts<Part>& parts, unsigned blocks) {
      quantize_rest<Number><<<blocks, kThreads, 0, launch.stream()>>>(parts, quantizer, scope_shift(quantizer.scope));
      launch.check();
    };
    PartBatches<Part, decltype(give_groups)> groups(give_groups);
    PartBatches<Part, decltype(give_rests)> rests(give_rests);
    slices([&](const QuantizeSlice& slice) {
      const std::uint64_t n = slice.values.size();
      const auto filling = static_cast<std::uint32_t>(slice.packed.size() - packed_bytes(n, bits));
      const Part part{reinterpret_cast<const Number*>(slice.values.data()),
                      slice.norms.data(),
                      slice.packed.data(),
                      n,
                      slice.first,
                      slice.tensor,
                      filling,
                      slice.rest.empty() ? nullptr : slice.rest.data()};
      groups.add(part, group_blocks(n));
      rests.add(part, n % kPackGroup != 0 || filling != 0 ? 1 : 0);
    });
    groups.finish();
    rests.finish();
  });
}

void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits, std::uint64_t scope) {
  const Launch launch(place, "dequantize_add");
  const auto give = [&](const Parts<DequantizePart>& parts, unsigned blocks) {
    if (scope == 0) {
      dequantize_kernel<false><<<blocks, kThreads, 0, launch.stream()>>>(parts, bits, kOneNorm);
    } else {
      dequantize_kernel<true><<<blocks, kThreads, 0, launch.stream()>>>(parts, bits, scope_shift(scope));
    }
    launch.check();
  };
  PartBatches<DequantizePart, decltype(give)> batches(give);
  slices([&](const DequantizeSlice& slice) {
    const std::uint64_t n = slice.values.size();
    batches.add({slice.packed.data(), slice.norms.data(), slice.values.data(), n},
                group_blocks(n) + (n % kPackGroup != 0 ? 1 : 0));
  });
  batches.finish();
}

}  // namespace laconic::cuda
