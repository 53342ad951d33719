#pragma once

// The first kernel of a selection: bounds for the scan, from a sample.

#include "kernels/topk/cuda/search.h"
#include "kernels/topk/sample.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

using laconic::topk::kLine;

inline constexpr unsigned kSampleThreads = 1024;  ///< of the one block that samples, a line each
inline constexpr float kWarmFraction = 0.9F;  ///< of the last threshold, where candidates begin

/// Standard deviations by which a bound errs on the safe side, and by which the candidates from a guess must exceed k.
inline constexpr float kMarginDeviations = 4.0F;
inline constexpr float kConfirmDeviations = 2.0F;

// A sample's keys are chosen by two digits; the bits below them are dropped, which lowers a bound a little.
inline constexpr unsigned kDigitBits = 11;
inline constexpr unsigned kDigits = 1U << kDigitBits;
inline constexpr unsigned kHighDigit = 31 - kDigitBits;
inline constexpr unsigned kLowDigit = kHighDigit - kDigitBits;

/// How many keys of the sample are at least a bound, and how that varies between lines.
struct SampleCount {
  float mean;
  float deviation;
};

/// Keys of whole cache lines, one line from each of equal shares of the view. Each thread has one, or none in a short
/// view.
struct Sample {
  std::uint32_t keys[kLine];
  unsigned lines;

  __device__ bool has_line() const { return threadIdx.x < lines; }
  __device__ unsigned size() const { return lines * kLine; }

  template <class Scores>
  __device__ void read(const Search& search, const Scores& scores) {
    const std::uint64_t all = search.entries.size / kLine;
    lines = static_cast<unsigned>(all < kSampleThreads ? all : kSampleThreads);
    if (!has_line()) return;
    const std::uint64_t begin = laconic::topk::sampled_at(search.entries.size, lines, threadIdx.x, false);
    const float* gradient = search.gradient + begin;
    const float* residual = search.residual + begin;
    const bool aligned = is_vector(gradient) && is_vector(residual);
    float values[kLine];
    aligned ? add_line<true>(gradient, residual, values) : add_line<false>(gradient, residual, values);
#pragma unroll
    for (unsigned j = 0; j < kLine; ++j) keys[j] = key_of(values[j]);
    if constexpr (Scores::kRescored) {
      std::uint32_t next = scores.first_from(search.entries, begin);
#pragma unroll
      for (unsigned j = 0; j < kLine; ++j) keys[j] = scores.key_if_next(begin + j, values[j], keys[j], next);
    }
  }

  template <bool kAligned>
  __device__ static void add_line(const float* gradient, const float* residual, float* values) {
#pragma unroll
    for (unsigned j = 0; j < kLine; j += 4) {
      add_vectors(load_vector<kAligned>(gradient + j), load_vector<kAligned>(residual + j), values + j);
    }
  }

  __device__ SampleCount count(std::uint32_t bound) const {
    std::uint32_t here = 0;
#pragma unroll
    for (unsigned j = 0; j < kLine; ++j) here += has_line() && keys[j] >= bound ? 1 : 0;
    const auto mean = static_cast<float>(sums_of_block<kSampleThreads>(here).all);
    const auto all_squares = static_cast<float>(sums_of_block<kSampleThreads>(here * here).all);
    const float variance = all_squares - mean * mean / static_cast<float>(lines);
    return {mean, sqrtf(fmaxf(variance, mean))};
  }

  /// The highest key of which at least `rank` keys are no smaller, without its lowest bits; 0 if the rank is beyond the
  /// sample.
  __device__ std::uint32_t at_rank(float rank) const {
    if (!(rank < static_cast<float>(size()))) return 0;
    const auto whole = static_cast<std::uint32_t>(rank < 1.0F ? 1.0F : rank);
    const Bin high = digit_of(whole, kHighDigit, 0);
    const Bin low = digit_of(whole - high.above, kLowDigit, high.index);
    return (high.index << kDigitBits | low.index) << kLowDigit;
  }

  /// The digit at `shift` of the key of that rank among the keys whose bits above the digit are `prefix`.
  __device__ Bin digit_of(std::uint32_t rank, unsigned shift, std::uint32_t prefix) const {
    __shared__ std::uint32_t bins[kDigits];
    for (unsigned i = threadIdx.x; i < kDigits; i += kSampleThreads) bins[i] = 0;
    __syncthreads();
    Counter counter(bins);
#pragma unroll
    for (unsigned j = 0; j < kLine; ++j) {
      if (has_line() && keys[j] >> shift >> kDigitBits == prefix) counter.add(keys[j] >> shift & (kDigits - 1));
    }
    counter.flush();
    __syncthreads();
    return find_bin<kSampleThreads, kDigits>(rank, [&](unsigned i) { return bins[i]; });
  }
};

inline __device__ float safety_margin(float deviation) {
  return kMarginDeviations * deviation + kMarginDeviations * kMarginDeviations / 2;
}

struct ScanBounds {
  std::uint32_t candidate;
  std::uint32_t zero;
};

/// Whether the sample shows enough candidates from that key on, and room for them.
inline __device__ bool suffices(const Sample& sample, const Search& search, std::uint32_t candidate, float expected) {
  const SampleCount found = sample.count(candidate);
  const float share = static_cast<float>(search.candidates.room) / static_cast<float>(search.entries.size);
  const bool fits = share >= 1.0F || found.mean <= 0.75F * share * static_cast<float>(sample.size());
  return fits && found.mean >= expected + kConfirmDeviations * found.deviation;
}

/// From the last threshold if the sample does not contradict it, otherwise from the sample alone.
inline __device__ ScanBounds sampled_bounds(const Sample& sample, const Search& search) {
  const float expected = static_cast<float>(static_cast<double>(search.k) * sample.size() /
                                            static_cast<double>(search.entries.size));
  const float guess = search.status->threshold;
  if (guess > 0.0F && key_of(guess) < kNonfiniteKey) {
    const std::uint32_t zero = key_of(guess);
    const SampleCount found = sample.count(zero);
    const float margin = safety_margin(fmaxf(found.deviation, sqrtf(expected)));
    if (fabsf(found.mean - expected) <= margin) {
      const std::uint32_t candidate = key_of(kWarmFraction * guess);
      if (suffices(sample, search, candidate, expected)) return {candidate, zero};
      return {min(sample.at_rank(expected + margin), zero), zero};
    }
  }
  const std::uint32_t middle = sample.at_rank(rintf(expected));
  const float margin = safety_margin(sample.count(middle).deviation);
  return {sample.at_rank(expected + margin), middle};
}

/// One block of kSampleThreads. Also sets up what later kernels count in.
template <class Scores>
__global__ void __launch_bounds__(kSampleThreads) bounds_kernel(Search search, Scores scores) {
  for (unsigned i = threadIdx.x; i < kPasses * kHistogram; i += kSampleThreads) search.histograms[i] = 0;
  ScanBounds bounds{kNonfiniteKey, kNonfiniteKey};  // k = 0: only what is not finite
  if (search.k > 0) {
    Sample sample;
    sample.read(search, scores);
    bounds = sampled_bounds(sample, search);
  }
  if (threadIdx.x != 0) return;
  State state{};
  state.candidate = min(bounds.candidate, kNonfiniteKey);
  state.zero = min(bounds.zero, kNonfiniteKey);
  state.mode = Mode::candidates;
  state.window = {state.candidate, kBinBits, kBins, search.k};
  *search.state = state;
}

}  // namespace laconic::cuda::search
#endif
