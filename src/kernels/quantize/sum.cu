#include <algorithm>

#include "base/cuda/list.h"
#include "base/cuda/parts.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/quantize/cuda/fields.h"

// The sum of several payloads in one pass over the values.

namespace laconic::cuda {
namespace {

/// The payloads that are added.
struct Sources {
  const std::byte* few[kMostInParameters];
  const std::byte* const* many;  ///< if they are more; otherwise null
  unsigned count;

  template <class T>
  __device__ const T* at(unsigned source, std::uint64_t offset) const {
    return reinterpret_cast<const T*>((many == nullptr ? few[source] : many[source]) + offset);
  }
};

template <class Number>
struct SumPart {
  std::uint64_t fields_offset;
  std::uint64_t norms_offset;
  Number* values;
  std::uint64_t n;
};

/// What becomes of a sum.
struct Outcome {
  float divisor;
  Status* status;

  /// Whether the result is not finite.
  template <class Number>
  __device__ bool store(float sum, Number& value) const {
    const float mean = divisor != 1.0F ? sum / divisor : sum;
    value = narrowed<Number>(mean);
    return is_nonfinite(mean);
  }
  __device__ void note(bool nonfinite) const {
    if (nonfinite) status->nonfinite = 1;  // whoever writes writes the same
  }
};

/// For any width. A thread has a lane of a group: its sums stay in registers while the payloads' words come.
template <bool kScopes, class Number>
__device__ void sum_lane(const SumPart<Number>& part, const Sources& sources, const Outcome& outcome, unsigned block,
                         int bits, int shift) {
  constexpr unsigned kRows = kPackGroup / kPackLanes;
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  const Lane lane(block);
  if (lane.group >= part.n / kPackGroup) return;
  const std::uint64_t group = lane.group * kPackGroup;
  Number* column = part.values + lane.value;
  float sums[kRows];
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) sums[row] = -0.0F;  // -0 + x is x, bit for bit
#pragma unroll 1  // two or more at once take more registers and are slower
  for (unsigned source = 0; source < sources.count; ++source) {
    const auto* norms = sources.at<float>(source, part.norms_offset);
    const auto* words = sources.at<std::uint32_t>(source, part.fields_offset + lane.word_offset(bits));
    float step = quantize_step(norms[group >> shift], bits);
    std::uint64_t pending = 0;
    int filled = 0;
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      if (kScopes && row > 0 && row % kRowsOfScope == 0) {
        const std::uint64_t at = group + row * kPackLanes;
        if ((at & ((std::uint64_t{1} << shift) - 1)) == 0) step = quantize_step(norms[at >> shift], bits);
      }
      if (filled < bits) {
        pending |= std::uint64_t{*words} << filled;
        words += kPackLanes;
        filled += 32;
      }
      sums[row] = sums[row] + value_of(static_cast<std::uint32_t>(pending), step, bits);
      pending >>= bits;
      filled -= bits;
    }
  }
  bool nonfinite = false;
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) nonfinite |= outcome.store(sums[row], column[row * kPackLanes]);
  outcome.note(nonfinite);
}

/// For widths that divide a word. A warp has a group, and a thread every second word of a lane: it needs few registers,
/// so that more threads run at once.
template <int kBits, bool kScopes, class Number>
__device__ void sum_words(const SumPart<Number>& part, const Sources& sources, const Outcome& outcome, unsigned block,
                          int shift) {
  constexpr unsigned kWords = kBits / 2;  ///< of a thread
  constexpr unsigned kRows = 32 / kBits;  ///< of a word
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  const std::uint64_t number = (std::uint64_t{block} * kThreads + threadIdx.x) / kWarp;
  if (number >= part.n / kPackGroup) return;
  const unsigned in_warp = threadIdx.x % kWarp;
  const std::uint64_t group = number * kPackGroup;
  const std::uint64_t words_offset = part.fields_offset + number * packed_bytes(kPackGroup, kBits);
  const auto row_of = [&](unsigned word) { return (2 * word + in_warp / kPackLanes) * kRows; };
  Number* column = part.values + group + in_warp % kPackLanes;
  float sums[kWords][kRows];
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) sums[word][row] = -0.0F;  // -0 + x is x, bit for bit
  }
#pragma unroll 4
  for (unsigned source = 0; source < sources.count; ++source) {
    const auto* norms = sources.at<float>(source, part.norms_offset);
    const auto* words = sources.at<std::uint32_t>(source, words_offset) + in_warp;
    std::uint32_t fields[kWords];
#pragma unroll
    for (unsigned word = 0; word < kWords; ++word) fields[word] = words[word * kWarp];
    float step = quantize_step(norms[group >> shift], kBits);
#pragma unroll
    for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
      for (unsigned row = 0; row < kRows; ++row) {
        if (kScopes && row % kRowsOfScope == 0) {
          step = quantize_step(norms[(group + (row_of(word) + row) * kPackLanes) >> shift], kBits);
        }
        sums[word][row] = sums[word][row] + value_of(fields[word] >> row * kBits, step, kBits);
      }
    }
  }
  bool nonfinite = false;
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      nonfinite |= outcome.store(sums[word][row], column[(row_of(word) + row) * kPackLanes]);
    }
  }
  outcome.note(nonfinite);
}

template <class Number>
__device__ void sum_rest(const SumPart<Number>& part, const Sources& sources, const Outcome& outcome, int bits,
                         int shift) {
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  for (std::uint32_t i = threadIdx.x; i < part.n - done; i += kThreads) {
    float sum = -0.0F;
    for (unsigned source = 0; source < sources.count; ++source) {
      const float norm = sources.at<float>(source, part.norms_offset)[(done + i) >> shift];
      const auto* packed = sources.at<std::byte>(source, part.fields_offset + packed_bytes(done, bits));
      sum = sum + value_of(field_at(packed, i, bits), quantize_step(norm, bits), bits);
    }
    outcome.note(outcome.store(sum, part.values[done + i]));
  }
}

/// Blocks of threads for the full groups of a part. kBits is 0 for sum_lane.
template <int kBits>
__host__ __device__ std::uint64_t sum_blocks(std::uint64_t n) {
  return kBits == 0 ? group_blocks(n) : (n / kPackGroup * kWarp + kThreads - 1) / kThreads;
}

template <int kBits, bool kScopes, class Number>
__global__ void __launch_bounds__(kThreads, kBits == 0 ? 3 : 4)
sum_kernel(const __grid_constant__ Parts<SumPart<Number>> parts, const __grid_constant__ Sources sources,
           Outcome outcome, int bits, int shift) {
  const unsigned number = parts.of_block();
  const SumPart<Number> part = parts.items[number];
  const unsigned block = parts.block_in(number);
  if (block >= sum_blocks<kBits>(part.n)) return sum_rest(part, sources, outcome, bits, shift);
  if constexpr (kBits == 0) {
    sum_lane<kScopes>(part, sources, outcome, block, bits, shift);
  } else {
    sum_words<kBits, kScopes>(part, sources, outcome, block, shift);
  }
}

template <int kBits, class Number>
void launch_sum(const Launch& launch, const Sources& sources, Each<DequantizeSection> sections, const Outcome& outcome,
                int bits, std::uint64_t scope) {
  using Part = SumPart<Number>;
  const auto kernel = scope == 0 ? sum_kernel<kBits, false, Number> : sum_kernel<kBits, true, Number>;
  const auto give = [&](const Parts<Part>& parts, unsigned blocks) {
    kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, sources, outcome, bits, scope_shift(scope));
    launch.check();
  };
  PartBatches<Part, decltype(give)> batches(give);
  sections([&](const DequantizeSection& section) {
    const std::uint64_t n = section.values.size();
    batches.add({section.fields_offset, section.norms_offset, reinterpret_cast<Number*>(section.values.data()), n},
                sum_blocks<kBits>(n) + (n % kPackGroup != 0 ? 1 : 0));
  });
  batches.finish();
}

// How the list of payloads travels (base/cuda/list.h).
void put_list(Sources& sources, const InParameters<const std::byte*>& list) {
  std::copy(std::begin(list.items), std::end(list.items), sources.few);
}
void put_list(Sources& sources, const InMemory<const std::byte*>& list) { sources.many = list.items; }

}  // namespace

void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope, float divisor, StatusView status) {
  const Launch launch(place, "dequantize_sum");
  const auto payload_at = [&](std::size_t i) { return payloads[i].data(); };
  with_list<const std::byte*>(place, payloads.size(), payload_at, [&](const auto& list) {
    Sources sources{};
    sources.count = static_cast<unsigned>(payloads.size());
    put_list(sources, list);
    with_number_of(sections, [&]<class Number>(Number) {
      const auto launch_them = bits == 4 ? launch_sum<4, Number> : bits == 8 ? launch_sum<8, Number> : launch_sum<0, Number>;
      launch_them(launch, sources, sections, {divisor, status.data()}, bits, scope);
    });
  });
}

}  // namespace laconic::cuda
