#include "exchange/model.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "support/support.h"

namespace laconic::test {

std::vector<float> values_of(int rank, std::size_t n, std::uint64_t seed) {
  return normal_values(n, seed * 1000 + static_cast<std::uint64_t>(rank));
}

std::vector<float> integers_of(int rank, std::size_t n, std::uint64_t seed) {
  auto values = values_of(rank, n, seed);
  for (float& value : values) value = std::round(value * 40.0F);
  return values;
}

Entries entries_of(int rank, std::uint64_t n, std::uint64_t count, double shared, std::uint64_t seed) {
  std::set<std::uint32_t> chosen;
  std::mt19937_64 common(seed);
  std::mt19937_64 own(seed * 77 + 1 + static_cast<std::uint64_t>(rank));
  const auto from_common = static_cast<std::uint64_t>(static_cast<double>(count) * shared);
  while (chosen.size() < from_common) chosen.insert(static_cast<std::uint32_t>(common() % n));
  while (chosen.size() < count) chosen.insert(static_cast<std::uint32_t>(own() % n));
  Entries entries;
  entries.indices.assign(chosen.begin(), chosen.end());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    entries.values.push_back(static_cast<float>(static_cast<int>(own() % 2001) - 1000));
  }
  return entries;
}

std::vector<Entries> all_entries(int ranks, std::uint64_t n, std::uint64_t count, double shared, std::uint64_t seed) {
  std::vector<Entries> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(entries_of(rank, n, count, shared, seed));
  return parts;
}

std::map<std::uint32_t, float> sums_of(const std::vector<Entries>& parts) {
  std::map<std::uint32_t, float> sums;
  for (const Entries& part : parts) {
    for (std::size_t i = 0; i < part.indices.size(); ++i)
      sums.try_emplace(part.indices[i], -0.0F).first->second += part.values[i];
  }
  return sums;
}

std::vector<float> dense_mean(const std::vector<Entries>& parts, std::uint64_t n) {
  std::vector<float> mean(n, 0.0F);
  for (const auto& [index, sum] : sums_of(parts)) mean[index] = sum / static_cast<float>(parts.size());
  return mean;
}

std::vector<float> mean_of(const std::vector<std::vector<float>>& parts) {
  std::vector<float> sum = parts[0];
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + parts[rank][i];
  }
  for (float& value : sum) value = value / static_cast<float>(parts.size());
  return sum;
}

std::vector<float> dense_of(const Entries& entries, std::uint64_t n) {
  std::vector<float> dense(n, 0.0F);
  for (std::size_t i = 0; i < entries.indices.size(); ++i) dense[entries.indices[i]] = entries.values[i];
  return dense;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0);
}

}  // namespace laconic::test
