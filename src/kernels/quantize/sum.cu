#include <algorithm>
#include <cmath>

#include "base/cuda/list.h"
#include "base/cuda/parts.h"
#include "base/cuda/scan.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/quantize/cuda/fields.h"

// The sum of several payloads in one pass over the values.

namespace laconic::cuda {
namespace {

constexpr std::uint32_t kBitsOfInf = 0x7F80'0000;

/// The payloads that are added. List is one of base/cuda/list.h.
template <class List>
struct Sources {
  List payloads;
  unsigned count;
  std::uint32_t bits_of_128 = kBitsOf128;

  template <class T>
  __device__ const T* at(unsigned source, std::uint64_t offset) const {
    return reinterpret_cast<const T*>(payloads[source] + offset);
  }
};

template <class Number>
struct SumPart {
  std::uint64_t fields_offset;
  std::uint64_t norms_offset;
  Number* values;
  std::uint64_t n;
};

/// What becomes of a sum. A product with 1 / 2^k is the quotient to the last bit, and a division takes a tenth longer.
struct Outcome {
  float divisor;
  float factor;  ///< 1 / divisor if that is exact, otherwise 0
  Status* status;

  /// `watch` is 0 and stays so unless a result is NaN or Inf: in one instruction for each of them.
  template <class Number>
  __device__ void store(float sum, Number& value, float& watch) const {
    const float mean = factor != 0.0F ? sum * factor : sum / divisor;
    value = narrowed<Number>(mean);
    watch = __fmaf_rn(mean, 0.0F, watch);
  }
  __device__ void note(float watch) const {
    if (watch != 0.0F) status->nonfinite = 1;  // whoever writes writes the same
  }
};

/// For any width. A thread has a lane of a group: its sums stay in registers while the payloads' words come.
template <bool kScopes, class Number, class List>
__device__ void sum_lane(const SumPart<Number>& part, const Sources<List>& sources, const Outcome& outcome,
                         unsigned block, int bits, int shift) {
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
    const auto* norms = sources.template at<float>(source, part.norms_offset);
    const auto* words = sources.template at<std::uint32_t>(source, part.fields_offset + lane.word_offset(bits));
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
  float watch = 0.0F;
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) outcome.store(sums[row], column[row * kPackLanes], watch);
  outcome.note(watch);
}

/// Where a warp's group lies, and which of it are a thread's. A thread has every second word of a lane.
template <int kBits>
struct WordsOfThread {
  static constexpr unsigned kWords = kBits / 2;
  static constexpr unsigned kRows = 32 / kBits;  ///< of a word

  std::uint64_t group;  ///< its first value
  std::uint64_t words;  ///< offset in a payload

  __device__ WordsOfThread(std::uint64_t number, std::uint64_t fields_offset)
      : group(number * kPackGroup),
        words(fields_offset + number * packed_bytes(kPackGroup, kBits) + lane() * sizeof(std::uint32_t)) {}

  __device__ static unsigned row_of(unsigned word) { return (2 * word + lane() / kPackLanes) * kRows; }
  __device__ std::uint64_t value_at(unsigned word, unsigned row) const {
    return group + (row_of(word) + row) * kPackLanes + lane() % kPackLanes;
  }
};

/// Value by value, for any norm.
template <int kBits, class Number, class List>
__device__ void sum_words_slowly(const SumPart<Number>& part, const Sources<List>& sources, const Outcome& outcome,
                                 const WordsOfThread<kBits>& mine, int shift) {
  float watch = 0.0F;
#pragma unroll 1
  for (unsigned field = 0; field < mine.kWords * mine.kRows; ++field) {
    const unsigned word = field / mine.kRows;
    const unsigned row = field % mine.kRows;
    float sum = -0.0F;
#pragma unroll 1
    for (unsigned source = 0; source < sources.count; ++source) {
      const float norm = sources.template at<float>(source, part.norms_offset)[mine.group >> shift];
      const std::uint32_t bits = sources.template at<std::uint32_t>(source, mine.words)[word * kWarp] >> row * kBits;
      sum = sum + value_of(bits, quantize_step(norm, kBits), kBits);
    }
    outcome.store(sum, part.values[mine.value_at(word, row)], watch);
  }
  outcome.note(watch);
}

/// -0 + x is x, bit for bit.
template <unsigned kWords, unsigned kRows>
__device__ void begin_sums(float (&sums)[kWords][kRows]) {
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) sums[word][row] = -0.0F;
  }
}

/// The sums of a warp's group, where they belong.
template <int kBits, class Number, unsigned kWords, unsigned kRows>
__device__ void store_sums(const SumPart<Number>& part, const Outcome& outcome, const WordsOfThread<kBits>& mine,
                           const float (&sums)[kWords][kRows]) {
  float watch = 0.0F;
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      outcome.store(sums[word][row], part.values[mine.value_at(word, row)], watch);
    }
  }
  outcome.note(watch);
}

/// For widths that divide a word, a group per warp: a thread needs few registers, so that more threads run at once.
/// Words of kAhead payloads are under way while those of earlier ones are added.
template <int kBits, bool kScopes, class Number, class List>
__device__ void sum_words(const SumPart<Number>& part, const Sources<List>& sources, const Outcome& outcome,
                          unsigned block, int shift) {
  using Mine = WordsOfThread<kBits>;
  constexpr unsigned kWords = Mine::kWords;
  constexpr unsigned kRows = Mine::kRows;
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  constexpr unsigned kAhead = 4;
  const std::uint64_t number = (std::uint64_t{block} * kThreads + threadIdx.x) / kWarp;
  if (number >= part.n / kPackGroup) return;
  const Mine mine(number, part.fields_offset);
  const auto step_at = [&](unsigned source, std::uint64_t value) {
    return quantize_step(sources.template at<float>(source, part.norms_offset)[value >> shift], kBits);
  };

  std::uint32_t fields[kAhead][kWords];
  const auto load = [&](unsigned source, std::uint32_t (&to)[kWords]) {
    if (source >= sources.count) return;
    const auto* words = sources.template at<std::uint32_t>(source, mine.words);
#pragma unroll
    for (unsigned word = 0; word < kWords; ++word) to[word] = words[word * kWarp];
  };
#pragma unroll
  for (unsigned i = 0; i < kAhead; ++i) load(i, fields[i]);

  float steps = 0.0F;  // lane i has that of the i-th of 32 sources
  float sums[kWords][kRows];
  begin_sums(sums);
  for (unsigned first = 0; first < sources.count; first += kAhead) {
    if (!kScopes && first % kWarp == 0) {
      const unsigned source = first + lane();
      steps = source < sources.count ? step_at(source, mine.group) : 0.0F;
      const bool ordinary = __float_as_uint(128.0F * steps) < kBitsOfInf;  // no sign, not Inf, not NaN
      if (!__all_sync(kAllThreadsOfWarp, ordinary)) return sum_words_slowly(part, sources, outcome, mine, shift);
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned source = first + i;
      if (source >= sources.count) break;
      float step = kScopes ? 0.0F : __shfl_sync(kAllThreadsOfWarp, steps, source % kWarp);
#pragma unroll
      for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
        for (unsigned row = 0; row < kRows; ++row) {
          if (kScopes && row % kRowsOfScope == 0) {
            step = step_at(source, mine.group + (mine.row_of(word) + row) * kPackLanes);
          }
          const float with_128 = magnitude_and_128<kBits>(fields[i][word], row, sources.bits_of_128);
          // The same to the last bit, since 128 * step is exact and finite (`ordinary`): the exact product of `step`
          // and the magnitude is rounded once.
          const float value = kScopes ? (with_128 - 128.0F) * step : __fmaf_rn(with_128, step, -128.0F * step);
          sums[word][row] = sums[word][row] + with_sign_of_field<kBits>(value, fields[i][word], row);
        }
      }
      load(source + kAhead, fields[i]);
    }
  }
  store_sums(part, outcome, mine, sums);
}

template <class Number, class List>
__device__ void sum_rest(const SumPart<Number>& part, const Sources<List>& sources, const Outcome& outcome, int bits,
                         int shift) {
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  for (std::uint32_t i = threadIdx.x; i < part.n - done; i += kThreads) {
    float sum = -0.0F;
    for (unsigned source = 0; source < sources.count; ++source) {
      const float norm = sources.template at<float>(source, part.norms_offset)[(done + i) >> shift];
      const auto* packed = sources.template at<std::byte>(source, part.fields_offset + packed_bytes(done, bits));
      sum = sum + value_of(field_at(packed, i, bits), quantize_step(norm, bits), bits);
    }
    float watch = 0.0F;
    outcome.store(sum, part.values[done + i], watch);
    outcome.note(watch);
  }
}

/// Blocks of threads for the full groups of a part. kBits is 0 for sum_lane.
template <int kBits>
__host__ __device__ std::uint64_t sum_blocks(std::uint64_t n) {
  return kBits == 0 ? group_blocks(n) : (n / kPackGroup * kWarp + kThreads - 1) / kThreads;
}

template <int kBits, bool kScopes, class Number, class List>
__global__ void __launch_bounds__(kThreads, kBits == 0 ? 3 : 4)
sum_kernel(const __grid_constant__ Parts<SumPart<Number>> parts, const __grid_constant__ Sources<List> sources,
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

template <int kBits, class Number, class List>
void launch_sum(const Launch& launch, const Sources<List>& sources, Each<DequantizeSection> sections,
                const Outcome& outcome, int bits, std::uint64_t scope) {
  using Part = SumPart<Number>;
  const auto kernel = scope == 0 ? sum_kernel<kBits, false, Number, List> : sum_kernel<kBits, true, Number, List>;
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

/// The usual widths have kernels of their own, for up to as many payloads as fit into parameters.
template <class Number, class List>
constexpr auto sum_of(int bits) {
  if constexpr (std::is_same_v<List, InMemory<const std::byte*>>) {
    return launch_sum<0, Number, List>;
  } else {
    return bits == 4   ? launch_sum<4, Number, List>
           : bits == 8 ? launch_sum<8, Number, List>
                       : launch_sum<0, Number, List>;
  }
}

/// 0 unless the divisor is a power of two.
float exact_inverse(float divisor) {
  int exponent = 0;
  return std::frexp(divisor, &exponent) == 0.5F ? 1.0F / divisor : 0.0F;
}

}  // namespace

void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope, float divisor, StatusView status) {
  const Launch launch(place, "dequantize_sum");
  const auto payload_at = [&](std::size_t i) { return payloads[i].data(); };
  const Outcome outcome{divisor, exact_inverse(divisor), status.data()};
  with_list<const std::byte*>(place, payloads.size(), payload_at, [&]<class List>(const List& list) {
    const Sources<List> sources{list, static_cast<unsigned>(payloads.size())};
    with_number_of(sections, [&]<class Number>(Number) {
      sum_of<Number, List>(bits)(launch, sources, sections, outcome, bits, scope);
    });
  });
}

}  // namespace laconic::cuda
