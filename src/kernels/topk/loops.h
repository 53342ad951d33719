#pragma once

#include "kernels/topk/candidates.h"

// The loops that simd.cpp gives for each level.

namespace laconic::simd {

/// One block of a scan. Candidates are appended at indices/values, which have room for the block and the overrun.
struct ScanBlock {
  const float* gradient;
  const float* residual;
  float* rest;
  std::size_t size;
  std::uint32_t first_index;
  topk::Bounds bounds;  ///< zero >= candidate
  std::uint32_t* indices;
  std::uint32_t* values;
};
/// Returns how many candidates there were; `highest` is raised to the largest key met.
std::size_t scan_add(SimdLevel level, const ScanBlock& block, std::int32_t& highest);
std::size_t scan_again(SimdLevel level, const ScanBlock& block, std::int32_t& highest);

/// Copies the keys in [low, high] to `members` in order; returns how many.
std::size_t gather_between(SimdLevel level, const std::uint32_t* keys, std::size_t n, std::uint32_t low,
                           std::uint32_t high, std::uint32_t* members);

/// Writes a part's selected entries to indices/values (greater + equal of them) and repairs `rest`.
struct EmitPart {
  const topk::Part* part;
  std::uint32_t threshold;
  float* rest;
  std::uint32_t* indices;
  float* values;
};
void emit_part(SimdLevel level, const EmitPart& emit);

}  // namespace laconic::simd
