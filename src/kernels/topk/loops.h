#pragma once

#include "kernels/topk/candidates.h"

// The loops of the fast selection, which simd.cpp and portable.cpp implement for each of their levels.

namespace laconic::topk {

/// One block of a scan. Candidates are appended at indices/values, which have room for the block and the overrun.
struct ScanBlock {
  const float* gradient;
  const float* residual;
  float* rest;
  std::size_t size;
  std::uint32_t first_index;
  Bounds bounds;  ///< zero >= candidate
  std::uint32_t* indices;
  std::uint32_t* values;
};

/// Keys that may still be the threshold, and the bounds that select from them.
struct GatherKeys {
  const std::uint32_t* keys;
  std::size_t size;
  std::uint32_t low;
  std::uint32_t high;
  std::uint32_t* members;  ///< may be `keys`
};

/// Writes a section's selected entries to indices/values (greater + equal of them) and repairs `rest`.
struct EmitSection {
  const Section* section;
  std::uint32_t threshold;
  float* rest;
  std::uint32_t* indices;
  float* values;
};

}  // namespace laconic::topk

namespace laconic::simd {
/// Returns the number of candidates. Raises `highest` to the largest key met.
std::size_t scan_add(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest);
std::size_t scan_again(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest);
/// Copies the keys in [low, high] to `members` in order and returns their number.
std::size_t gather_between(SimdLevel level, const topk::GatherKeys& gather);
void emit_section(SimdLevel level, const topk::EmitSection& emit);
}  // namespace laconic::simd

namespace laconic::portable {
/// How many magnitudes are above a key. For short lists, so there is no other implementation.
std::size_t count_above(SimdLevel level, const std::uint32_t* keys, std::size_t n, std::uint32_t bound);
std::size_t scan_add(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest);
std::size_t scan_again(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest);
std::size_t gather_between(SimdLevel level, const topk::GatherKeys& gather);
void emit_section(SimdLevel level, const topk::EmitSection& emit);
}  // namespace laconic::portable
