#pragma once

// The first kernel of a selection: bounds for the scan, from a sample.

#include "kernels/topk/cuda/bins.h"
#include "kernels/topk/cuda/walk.h"
#include "kernels/topk/sample.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

using laconic::topk::kLine;

inline constexpr unsigned kSampleThreads = 1024;  ///< of the one block that samples, a line each
inline constexpr float kWarmFraction = 0.9F;  ///< of the last threshold, where candidates begin

/// Standard deviations by which a bound errs on the safe side, and by which the candidates from a guess must exceed k.
inline constexpr float kMarginDeviations = 4.0F;
inline constexpr float kConfirmDeviations = 2.0F;

// Keys of a block's threads are chosen by digits. Bounds leave out the lowest one, which makes them a little lower.
inline constexpr unsigned kDigitBits = 11;
inline constexpr unsigned kDigits = 1U << kDigitBits;
inline constexpr unsigned kHighDigit = 31 - kDigitBits;
inline constexpr unsigned kMiddleDigit = kHighDigit - kDigitBits;
inline constexpr unsigned kLowDigitBits = kMiddleDigit;

/// The digit of `width` bits from `shift` on of the key of that rank, among those whose bits above it are `prefix`.
/// `valid` has a bit for each of a thread's keys. All kSampleThreads threads call it.
template <unsigned kCount>
__device__ Bin digit_of(const std::uint32_t (&keys)[kCount], unsigned valid, std::uint32_t rank, unsigned shift,
                        unsigned width, std::uint32_t prefix) {
  __shared__ std::uint32_t bins[kDigits];
  for (unsigned i = threadIdx.x; i < kDigits; i += kSampleThreads) bins[i] = 0;
  __syncthreads();
  Counter counter(bins);
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    const std::uint32_t bits = keys[j] >> shift;
    if ((valid >> j & 1U) != 0 && bits >> width == prefix) counter.add(bits & ((1U << width) - 1));
  }
  counter.flush();
  __syncthreads();
  return find_bin<kSampleThreads, kDigits>(rank, [&](unsigned i) { return bins[i]; });
}

/// The key of a rank, as far as its digits are known.
struct RankedKey {
  std::uint32_t key;
  std::uint32_t rank;  ///< among the keys with the same digits
};

/// The key of that rank >= 1 from above, without its lowest digit.
template <unsigned kCount>
__device__ RankedKey rough_key(const std::uint32_t (&keys)[kCount], unsigned valid, std::uint32_t rank) {
  const Bin high = digit_of(keys, valid, rank, kHighDigit, kDigitBits, 0);
  const Bin middle = digit_of(keys, valid, rank - high.above, kMiddleDigit, kDigitBits, high.index);
  return {(high.index << kDigitBits | middle.index) << kMiddleDigit, rank - high.above - middle.above};
}

template <unsigned kCount>
__device__ RankedKey exact_key(const std::uint32_t (&keys)[kCount], unsigned valid, std::uint32_t rank) {
  const RankedKey rough = rough_key(keys, valid, rank);
  const Bin low = digit_of(keys, valid, rough.rank, 0, kLowDigitBits, rough.key >> kLowDigitBits);
  return {rough.key | low.index, rough.rank - low.above};
}

/// How many keys of the sample are at least a bound, and how that varies between lines.
struct SampleCount {
  float mean;
  float deviation;
};

/// Keys of whole cache lines, one line from each of equal ranges of the view. Each thread has one, or none in a short
/// view.
struct Sample {
  std::uint32_t keys[kLine];
  unsigned lines;

  __device__ bool has_line() const { return threadIdx.x < lines; }
  __device__ unsigned size() const { return lines * kLine; }

  /// All threads call it.
  template <class Number, class Scores>
  __device__ void read(const Search& search, const Scores& scores) {
    const std::uint64_t all = search.entries.size / kLine;
    lines = static_cast<unsigned>(all < kSampleThreads ? all : kSampleThreads);
    const std::uint64_t begin =
        has_line() ? laconic::topk::sampled_at(search.entries.size, lines, threadIdx.x, false) : search.entries.size;
    float values[kLine] = {};
    if (has_line()) {
      const Number* gradient = gradient_of<Number>(search) + begin;
      const float* residual = search.residual + begin;
      const bool aligned = is_aligned(gradient) && is_aligned(residual);
      aligned ? add_line<true>(gradient, residual, values) : add_line<false>(gradient, residual, values);
    }
#pragma unroll
    for (unsigned j = 0; j < kLine; ++j) keys[j] = key_of(values[j]);
    if constexpr (Scores::kRescored) {
      const std::uint64_t end = has_line() ? begin + kLine : begin;
      scores.for_each_between(begin, end, [&](std::uint32_t position, std::uint32_t index) {
        const std::uint32_t key = scores.key_at(position, value_at<Number>(search, index));
#pragma unroll
        for (unsigned j = 0; j < kLine; ++j) keys[j] = begin + j == index ? key : keys[j];
      });
    }
  }

  template <bool kAligned, class Number>
  __device__ static void add_line(const Number* gradient, const float* residual, float* values) {
#pragma unroll
    for (unsigned j = 0; j < kLine; j += 4) {
      add_vectors(load_four<kAligned>(gradient + j), load_four<kAligned>(residual + j), values + j);
    }
  }

  __device__ SampleCount count(std::uint32_t bound) const {
    std::uint32_t here = 0;
#pragma unroll
    for (unsigned j = 0; j < kLine; ++j) here += has_line() && keys[j] >= bound ? 1 : 0;
    const auto mean = static_cast<float>(sum_of_block<kSampleThreads>(here));
    const auto all_squares = static_cast<float>(sum_of_block<kSampleThreads>(here * here));
    const float variance = all_squares - mean * mean / static_cast<float>(lines);
    return {mean, sqrtf(fmaxf(variance, mean))};
  }

  /// The highest key of which at least `rank` keys are no smaller, without its lowest bits; 0 if the rank is beyond the
  /// sample.
  __device__ std::uint32_t at_rank(float rank) const {
    if (!(rank < static_cast<float>(size()))) return 0;
    return rough_key(keys, valid(), whole_rank(rank)).key;
  }

  __device__ std::uint32_t exactly_at_rank(float rank) const {
    return exact_key(keys, valid(), whole_rank(rank)).key;
  }

 private:
  __device__ unsigned valid() const { return has_line() ? (1U << kLine) - 1 : 0; }
  __device__ static std::uint32_t whole_rank(float rank) {
    return static_cast<std::uint32_t>(rank < 1.0F ? 1.0F : rank);
  }
};

inline __device__ float safety_margin(float deviation) {
  return kMarginDeviations * deviation + kMarginDeviations * kMarginDeviations / 2;
}

struct ScanBounds {
  std::uint32_t candidate;
  std::uint32_t zero;
  std::uint32_t expected;
};

/// How many keys of the sample stand for as many candidates as there is room for.
inline __device__ float room_in_sample(const Sample& sample, const Search& search) {
  const float share = static_cast<float>(search.candidates.room) / static_cast<float>(search.entries.size);
  return share * static_cast<float>(sample.size());
}

/// Whether the sample shows enough candidates from that key on, and room for them.
inline __device__ bool suffices(const Sample& sample, const Search& search, std::uint32_t candidate, float expected) {
  const SampleCount found = sample.count(candidate);
  const bool all_fit = search.candidates.room >= search.entries.size;
  const bool fits = all_fit || found.mean <= 0.75F * room_in_sample(sample, search);
  return fits && found.mean >= expected + kConfirmDeviations * found.deviation;
}

/// If there is clearly no room for the candidates, as when most entries are equal, the scan need not store any. Then
/// the sample's key of the expected rank is the best guess.
inline __device__ ScanBounds unless_too_many(const Sample& sample, const Search& search, const ScanBounds& bounds,
                                             float expected) {
  const SampleCount found = sample.count(bounds.candidate);
  if (found.mean <= room_in_sample(sample, search) + kMarginDeviations * found.deviation) return bounds;
  return {kNonfiniteKey, kNonfiniteKey, sample.exactly_at_rank(rintf(expected))};
}

/// From the last threshold if the sample does not contradict it, otherwise from the sample alone.
inline __device__ ScanBounds sampled_bounds(const Sample& sample, const Search& search, float guess) {
  const float expected = static_cast<float>(static_cast<double>(search.k) * sample.size() /
                                            static_cast<double>(search.entries.size));
  if (guess > 0.0F && key_of(guess) < kNonfiniteKey) {
    const std::uint32_t zero = key_of(guess);
    const SampleCount found = sample.count(zero);
    const float margin = safety_margin(fmaxf(found.deviation, sqrtf(expected)));
    if (fabsf(found.mean - expected) <= margin) {
      const std::uint32_t candidate = key_of(kWarmFraction * guess);
      if (suffices(sample, search, candidate, expected)) return {candidate, zero, zero};
      const std::uint32_t lower = min(sample.at_rank(expected + margin), zero);
      return unless_too_many(sample, search, {lower, zero, zero}, expected);
    }
  }
  const std::uint32_t middle = sample.at_rank(rintf(expected));
  const float margin = safety_margin(sample.count(middle).deviation);
  return unless_too_many(sample, search, {sample.at_rank(expected + margin), middle, middle}, expected);
}

/// One block of kSampleThreads per scope. Also clears the words that emit sums in.
template <class Number, class Scores, class Searches>
__global__ void __launch_bounds__(kSampleThreads)
    bounds_kernel(const __grid_constant__ Searches searches, Scores scores) {
  let_next_kernel_begin();
  const Search search = searches.here();
  ScanBounds bounds{kNonfiniteKey, kNonfiniteKey, 0};  // k = 0: only what is not finite
  if (search.k > 0) {
    const float guess = *search.last_threshold;  // comes while the sample is read
    Sample sample;
    sample.read<Number>(search, scores.of(search));
    bounds = sampled_bounds(sample, search, guess);
  }
  wait_for_last_kernel();
  clear_emit_words<kSampleThreads>(search.entries.tiles(), search.greater, search.equal);
  if (threadIdx.x != 0) return;
  State state{};
  state.candidate = min(bounds.candidate, kNonfiniteKey);
  state.zero = min(bounds.zero, kNonfiniteKey);
  state.expected = bounds.expected;
  state.mode = Mode::candidates;
  state.window = {state.candidate, kBinBits, kBins, search.k};
  *search.state = state;
}

}  // namespace laconic::cuda::search
#endif
