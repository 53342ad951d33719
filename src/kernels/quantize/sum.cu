#include <algorithm>

#include "base/cuda/parts.h"
#include "kernels/quantize/cuda/fields.h"

// The sum of several payloads in one pass over the values.

namespace laconic::cuda {
namespace {

constexpr unsigned kMostSources = 8;  ///< payloads that are added in one pass

struct Sources {
  const std::byte* payloads[kMostSources];
  unsigned count;
  bool starts;  ///< whether the sum begins with them; otherwise they are added to the values

  template <class T>
  __device__ const T* at(unsigned source, std::uint64_t offset) const {
    return reinterpret_cast<const T*>(payloads[source] + offset);
  }
};

struct SumPart {
  std::uint64_t fields_offset;
  std::uint64_t norms_offset;
  float* values;
  std::uint64_t n;
};

/// For any width. A thread has a lane of a group: its sums stay in registers while the payloads' words come.
template <bool kScopes>
__device__ void sum_lane(const SumPart& part, const Sources& sources, unsigned block, int bits, int shift) {
  constexpr unsigned kRows = kPackGroup / kPackLanes;
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  const Lane lane(block);
  if (lane.group >= part.n / kPackGroup) return;
  const std::uint64_t group = lane.group * kPackGroup;
  float* column = part.values + lane.value;
  float sums[kRows];
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) sums[row] = sources.starts ? -0.0F : column[row * kPackLanes];
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
#pragma unroll
  for (unsigned row = 0; row < kRows; ++row) column[row * kPackLanes] = sums[row];
}

/// For widths that divide a word. A warp has a group, and a thread every second word of a lane: it needs few registers,
/// so that more threads run at once.
template <int kBits, bool kScopes>
__device__ void sum_words(const SumPart& part, const Sources& sources, unsigned block, int shift) {
  constexpr unsigned kWords = kBits / 2;  ///< of a thread
  constexpr unsigned kRows = 32 / kBits;  ///< of a word
  constexpr unsigned kRowsOfScope = kLeastScope / kPackLanes;
  const std::uint64_t number = (std::uint64_t{block} * kThreads + threadIdx.x) / kWarp;
  if (number >= part.n / kPackGroup) return;
  const unsigned in_warp = threadIdx.x % kWarp;
  const std::uint64_t group = number * kPackGroup;
  const std::uint64_t words_offset = part.fields_offset + number * packed_bytes(kPackGroup, kBits);
  const auto row_of = [&](unsigned word) { return (2 * word + in_warp / kPackLanes) * kRows; };
  float* column = part.values + group + in_warp % kPackLanes;
  float sums[kWords][kRows];
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      sums[word][row] = sources.starts ? -0.0F : column[(row_of(word) + row) * kPackLanes];
    }
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
#pragma unroll
  for (unsigned word = 0; word < kWords; ++word) {
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) column[(row_of(word) + row) * kPackLanes] = sums[word][row];
  }
}

__device__ void sum_rest(const SumPart& part, const Sources& sources, int bits, int shift) {
  const std::uint64_t done = part.n / kPackGroup * kPackGroup;
  for (std::uint32_t i = threadIdx.x; i < part.n - done; i += kThreads) {
    float sum = sources.starts ? -0.0F : part.values[done + i];
    for (unsigned source = 0; source < sources.count; ++source) {
      const float norm = sources.at<float>(source, part.norms_offset)[(done + i) >> shift];
      const auto* packed = sources.at<std::byte>(source, part.fields_offset + packed_bytes(done, bits));
      sum = sum + value_of(field_at(packed, i, bits), quantize_step(norm, bits), bits);
    }
    part.values[done + i] = sum;
  }
}

/// Blocks of threads for the full groups of a part. kBits is 0 for sum_lane.
template <int kBits>
__host__ __device__ std::uint64_t sum_blocks(std::uint64_t n) {
  return kBits == 0 ? group_blocks(n) : (n / kPackGroup * kWarp + kThreads - 1) / kThreads;
}

template <int kBits, bool kScopes>
__global__ void __launch_bounds__(kThreads, kBits == 0 ? 3 : 4)
sum_kernel(const __grid_constant__ Parts<SumPart> parts, const __grid_constant__ Sources sources, int bits, int shift) {
  const unsigned number = parts.of_block();
  const SumPart part = parts.items[number];
  const unsigned block = parts.block_in(number);
  if (block >= sum_blocks<kBits>(part.n)) return sum_rest(part, sources, bits, shift);
  if constexpr (kBits == 0) {
    sum_lane<kScopes>(part, sources, block, bits, shift);
  } else {
    sum_words<kBits, kScopes>(part, sources, block, shift);
  }
}

template <int kBits>
void launch_sum(const Launch& launch, const Sources& sources, Each<DequantizeSection> sections, int bits,
                std::uint64_t scope) {
  const auto kernel = scope == 0 ? sum_kernel<kBits, false> : sum_kernel<kBits, true>;
  const auto give = [&](const Parts<SumPart>& parts, unsigned blocks) {
    kernel<<<blocks, kThreads, 0, launch.stream()>>>(parts, sources, bits, scope_shift(scope));
    launch.check();
  };
  PartBatches<SumPart, decltype(give)> batches(give);
  sections([&](const DequantizeSection& section) {
    const std::uint64_t n = section.values.size();
    batches.add({section.fields_offset, section.norms_offset, section.values.data(), n},
                sum_blocks<kBits>(n) + (n % kPackGroup != 0 ? 1 : 0));
  });
  batches.finish();
}

}  // namespace

void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope) {
  const Launch launch(place, "dequantize_sum");
  for (std::size_t first = 0; first < payloads.size(); first += kMostSources) {
    Sources sources{};
    sources.starts = first == 0;
    for (const auto& payload : payloads.subspan(first, std::min<std::size_t>(kMostSources, payloads.size() - first))) {
      sources.payloads[sources.count++] = payload.data();
    }
    const auto launch_them = bits == 4 ? launch_sum<4> : bits == 8 ? launch_sum<8> : launch_sum<0>;
    launch_them(launch, sources, sections, bits, scope);
  }
}

}  // namespace laconic::cuda
