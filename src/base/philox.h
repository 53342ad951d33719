#pragma once

#include <array>
#include <cstdint>

namespace laconic {

/// Philox4x32 with 7 rounds (Salmon, Moraes, Dror, Shaw 2011), the fewest rounds that passed every BigCrush test in
/// that paper. A draw is a pure function of key and counter, so every implementation, thread and resumed run draws the
/// same numbers.
inline constexpr int kPhiloxRounds = 7;
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// What a draw is for. It is part of the counter, so that two uses never share a number. The values are stored on disk:
/// append only.
enum class Purpose : std::uint8_t {
  rounding = 1,         ///< stochastic rounding of a worker's values
  rounding_tail = 2,    ///< 16 more bits, used if the first 16 tie
  return_rounding = 3,  ///< stochastic rounding of a sum on its way back
  return_tail = 4,
  vote_ties = 5,
  block_start = 6,
  random_k = 7,
  group_seed = 8,      ///< seeds of the second and later groups of tensors
  slice_seed = 9,      ///< seeds of the slices of a machine's second and later ranks
  problem_data = 32,   ///< a problem's data: features, labels, start points
  problem_noise = 33,  ///< the noise of its gradients, or the points of a batch
  data_drawing = 48,   ///< the shape of a synthetic sample
  data_shards = 49,    ///< which worker owns a sample
  data_order = 50,     ///< in which order a worker sees its samples
  data_shared = 51,    ///< the batch that all workers score their models on
  data_augment = 52,   ///< crop and flip of a sample in an epoch
  model_start = 64,    ///< a network's initial parameters
  dropout = 65,
  text_sample = 66,       ///< the characters that a model of language writes
  flatness_samples = 80,  ///< the samples over which a Hessian is computed
  flatness_probe = 81,    ///< probe vectors of a trace estimate
  flatness_start = 82,    ///< the start vector of an eigenvalue search
  test = 255,
};

/// The rank of draws that all ranks share.
inline constexpr std::uint32_t kSharedRank = 0xFFFFFF;

/// One stream of draws: all of the counter except the index.
/// Counter words: index bits 0-31 | tensor << 8, index bits 32-39 | step | purpose << 24, rank.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = kSharedRank;  ///< below 2^24
  std::uint32_t tensor = 0;          ///< in registration order, below 2^24
  Purpose purpose = Purpose::test;

  constexpr RandomStream with(Purpose other) const { return {seed, step, rank, tensor, other}; }
  constexpr RandomStream of_tensor(std::uint32_t other) const { return {seed, step, rank, other, purpose}; }

  constexpr std::uint32_t key0() const { return static_cast<std::uint32_t>(seed); }
  constexpr std::uint32_t key1() const { return static_cast<std::uint32_t>(seed >> 32); }
  constexpr PhiloxBlock counter(std::uint64_t block) const {
    return {static_cast<std::uint32_t>(block), tensor << 8 | static_cast<std::uint32_t>(block >> 32 & 0xFF), step,
            static_cast<std::uint32_t>(purpose) << 24 | rank};
  }
  constexpr PhiloxBlock block(std::uint64_t index) const { return philox(counter(index), key0(), key1()); }
};

// Which block holds draw i. Sixteen neighbouring draws come from sixteen neighbouring blocks, so that a vector of
// blocks is a vector of draws for every vector of up to sixteen lanes, and no implementation has to transpose.

/// 32 random bits: block 16·(i div 64) + i mod 16, word (i mod 64) div 16.
constexpr std::uint32_t draw32(const RandomStream& stream, std::uint64_t i) {
  return stream.block(i / 64 * 16 + i % 16)[i % 64 / 16];
}

/// 16 random bits: block 16·(i div 128) + i mod 16, half-word (i mod 128) div 16, the low half of a word first.
constexpr std::uint32_t draw16(const RandomStream& stream, std::uint64_t i) {
  const auto half = static_cast<std::uint32_t>(i % 128 / 16);
  return stream.block(i / 128 * 16 + i % 16)[half / 2] >> (half % 2 * 16) & 0xFFFF;
}

/// Uniform in [0, bound), bound > 0, without bias (Lemire 2019). Draws 64 bits from block i and, in the rare case that
/// they must be rejected, from block i + 2^32, and so on.
std::uint64_t draw_below(const RandomStream& stream, std::uint64_t i, std::uint64_t bound);

/// The seed of the draws of one of several with a common seed. The first one, number 0, keeps that seed.
constexpr std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t number, Purpose purpose) {
  if (number == 0) return seed;
  const PhiloxBlock words = RandomStream{.seed = seed, .tensor = number, .purpose = purpose}.block(0);
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace laconic
