#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/topk/topk.h"

namespace laconic::test {

/// What rank `rank` holds in the model: every rank can compute every other's input.
std::vector<float> values_of(int rank, std::size_t n, std::uint64_t seed);
/// The same with small integers, whose sums are exact in any order.
std::vector<float> integers_of(int rank, std::size_t n, std::uint64_t seed);

struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  ConstSparseView view() const { return {View<const std::uint32_t>(indices), View<const float>(values)}; }
};

/// `count` ascending indices below n of rank `rank`; `shared` of them (0..1) are the same on all ranks, integer values.
Entries entries_of(int rank, std::uint64_t n, std::uint64_t count, double shared, std::uint64_t seed);

std::vector<Entries> all_entries(int ranks, std::uint64_t n, std::uint64_t count, double shared, std::uint64_t seed);
/// index -> sum in rank order, starting from the first value.
std::map<std::uint32_t, float> sums_of(const std::vector<Entries>& parts);
std::vector<float> dense_mean(const std::vector<Entries>& parts, std::uint64_t n);

/// Sum in rank order in float32, divided once by the number of parts.
std::vector<float> mean_of(const std::vector<std::vector<float>>& parts);
std::vector<float> dense_of(const Entries& entries, std::uint64_t n);

/// True where the bits are the same, so that -0 and 0 differ.
bool same_bits(const std::vector<float>& left, const std::vector<float>& right);

}  // namespace laconic::test
