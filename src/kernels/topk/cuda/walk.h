#pragma once

// Sums of neighbouring entries, and walks of a warp over entries and candidates.

#include "kernels/topk/cuda/search.h"

#ifdef __CUDACC__
namespace laconic::cuda::search {

/// An entry of a.
template <class Number>
__device__ float value_at(const Search& search, std::uint64_t i) {
  return with_residual(widened(gradient_of<Number>(search)[i]), search.residual[i]);
}

/// Four entries of a.
inline __device__ void add_vectors(const float4& gradient, const float4& residual, float* values) {
  values[0] = with_residual(gradient.x, residual.x);
  values[1] = with_residual(gradient.y, residual.y);
  values[2] = with_residual(gradient.z, residual.z);
  values[3] = with_residual(gradient.w, residual.w);
}

inline __device__ std::uint32_t magnitude_bits(std::uint32_t bits) { return bits & 0x7FFF'FFFFU; }

/// A warp's walk over a tile of all entries, 32 at a time by ascending index. All lanes call body(index, value, key,
/// valid) together.
template <class Scores, class Body>
__device__ void for_each_in_tile(const Entries& entries, const Scores& scores, std::uint64_t tile, Body body) {
  constexpr unsigned kAtOnce = 8;  // loads under way
  const std::uint64_t begin = tile == 0 ? 0 : tile * entries.tile - entries.lead;
  std::uint64_t end = (tile + 1) * entries.tile - entries.lead;
  if (end > entries.size) end = entries.size;
  [[maybe_unused]] std::uint32_t next = 0;
  if constexpr (Scores::kRescored) next = scores.first_in_tile(tile);
  for (std::uint64_t at = begin; at < end; at += kAtOnce * kWarp) {
    float values[kAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint64_t index = at + i * kWarp + lane();
      values[i] = index < end ? entries.values[index] : 0.0F;
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
      const std::uint64_t row = at + i * kWarp;
      if (row >= end) break;
      std::uint32_t key = key_of(values[i]);
      if constexpr (Scores::kRescored) key = scores.key_in_row(row, values[i], key, next);
      body(static_cast<std::uint32_t>(row + lane()), values[i], key, row + lane() < end);
    }
  }
}

/// Neighbouring candidates of a tile, four for each lane. Scores says whether keys are other than the values.
template <class Scores>
struct CandidateRows {
  static constexpr unsigned kRows = 4;
  static constexpr unsigned kCount = kRows * kWarp;
  std::uint32_t indices[kRows];
  std::uint32_t values[kRows];
  std::uint32_t keys[kRows];

  /// From the tile's candidate `at` on.
  __device__ void load(const Candidates& candidates, const Stored& stored, std::uint32_t at) {
#pragma unroll
    for (unsigned i = 0; i < kRows; ++i) {
      const std::uint32_t offset = at + i * kWarp + lane();
      if (offset >= stored.count) continue;
      const std::uint64_t from = std::uint64_t{stored.start} + offset;
      indices[i] = candidates.indices[from];
      values[i] = candidates.values[from];
      keys[i] = Scores::kRescored ? candidates.keys[from] : values[i];
    }
  }
  template <class Body>
  __device__ void visit(const Stored& stored, std::uint32_t at, Body body) const {
#pragma unroll
    for (unsigned i = 0; i < kRows; ++i) {
      const std::uint32_t row = at + i * kWarp;
      if (row >= stored.count) break;
      const bool valid = row + lane() < stored.count;
      body(valid ? indices[i] : 0, valid ? __uint_as_float(values[i]) : 0.0F, valid ? magnitude_bits(keys[i]) : 0,
           valid);
    }
  }
};

/// A warp's walk over the candidates of at most kWarp tiles. All lanes call body(index, value, key, valid) together.
/// Candidates of the next tile are under way meanwhile.
template <class Scores, class Body>
__device__ void for_each_candidate(const Candidates& candidates, std::uint64_t first_tile, std::uint64_t end_tile,
                                   Body body) {
  Stored mine{0, 0};
  if (first_tile + lane() < end_tile) mine = candidates.tiles[first_tile + lane()];
  const auto stored_in = [&](unsigned i) {
    return Stored{__shfl_sync(kAllThreadsOfWarp, mine.start, i), __shfl_sync(kAllThreadsOfWarp, mine.count, i)};
  };
  Stored stored = stored_in(0);
  CandidateRows<Scores> rows;
  rows.load(candidates, stored, 0);
  for (unsigned i = 1; first_tile + i <= end_tile; ++i) {  // visits tile i - 1, and loads tile i if there is one
    const Stored next = i < kWarp ? stored_in(i) : Stored{0, 0};
    CandidateRows<Scores> ahead;
    ahead.load(candidates, next, 0);
    rows.visit(stored, 0, body);
    for (std::uint32_t at = rows.kCount; at < stored.count; at += rows.kCount) {
      rows.load(candidates, stored, at);
      rows.visit(stored, at, body);
    }
    stored = next;
    rows = ahead;
  }
}

}  // namespace laconic::cuda::search
#endif
