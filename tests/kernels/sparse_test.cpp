#include "kernels/sparse/sparse.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>

#include "laconic/error.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;
using test::for_each_place;

struct Entries {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  ConstSparseView view() const { return {indices, values}; }
};

/// About `count` distinct ascending indices below `size`, with normal values.
Entries random_entries(std::uint64_t count, std::uint64_t size, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Entries entries;
  for (std::uint64_t i = 0; i < count; ++i) entries.indices.push_back(static_cast<std::uint32_t>(engine() % size));
  std::sort(entries.indices.begin(), entries.indices.end());
  entries.indices.erase(std::unique(entries.indices.begin(), entries.indices.end()), entries.indices.end());
  entries.values = test::normal_values(entries.indices.size(), seed + 1);
  return entries;
}

TEST(Sparse, ScatterAndGatherTouchTheirIndicesOnly) {
  for_each_place([](Place& place) {
    for (const std::size_t n : test::awkward_sizes()) {
      const auto entries = n == 0 ? Entries{} : random_entries(n / 3 + 1, n, n);
      const auto base = test::normal_values(n, 7);
      auto added = base;
      auto written = base;
      for (std::size_t i = 0; i < entries.indices.size(); ++i) {
        added[entries.indices[i]] += entries.values[i];
        written[entries.indices[i]] = entries.values[i];
      }
      Guarded<float> out(base, n % 16);
      scatter_add(place, entries.view(), out.view());
      EXPECT_EQ(out.values(), added) << n;
      Guarded<float> gathered(entries.indices.size(), 3);
      gather(place, out.view(), entries.indices, gathered.view());
      for (std::size_t i = 0; i < entries.indices.size(); ++i) ASSERT_EQ(gathered.view()[i], added[entries.indices[i]]);
      scatter(place, entries.view(), out.view());
      EXPECT_EQ(out.values(), written) << n;
      EXPECT_TRUE(out.intact() && gathered.intact()) << n;
    }
  });
}

/// The sum by a map from index to 0 + the values in the parts' order.
Entries model_sum(const std::vector<Entries>& parts) {
  std::map<std::uint32_t, float> sums;
  for (const Entries& part : parts) {
    for (std::size_t i = 0; i < part.indices.size(); ++i) {
      sums.try_emplace(part.indices[i], -0.0F).first->second += part.values[i];
    }
  }
  Entries sum;
  for (const auto& [index, value] : sums) {
    sum.indices.push_back(index);
    sum.values.push_back(value);
  }
  return sum;
}

void expect_merges(const std::vector<Entries>& parts, const std::string& what) {
  SCOPED_TRACE(what);
  const Entries expected = model_sum(parts);
  std::vector<ConstSparseView> views;
  std::size_t total = 0;
  for (const Entries& part : parts) {
    views.push_back(part.view());
    total += part.indices.size();
  }
  for_each_place([&](Place& place) {
    Guarded<std::uint32_t> indices(total, 5);
    Guarded<float> values(total, 9);
    const std::uint64_t count = merge_sum(place, views, {indices.view(), values.view()});
    ASSERT_EQ(count, expected.indices.size());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(indices.view()[i], expected.indices[i]) << i;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values.view()[i]), std::bit_cast<std::uint32_t>(expected.values[i])) << i;
    }
    EXPECT_TRUE(indices.intact() && values.intact());
  });
}

TEST(Sparse, MergeSumsInRankOrder) {
  for (const std::size_t workers : {1U, 2U, 3U, 7U, 64U}) {
    for (const std::uint64_t size : {1U, 2U, 63U, 65'536U, 65'537U, 1'000'000U}) {
      if (workers * size > 10'000'000) continue;
      std::vector<Entries> parts;
      for (std::size_t rank = 0; rank < workers; ++rank)
        parts.push_back(random_entries(size / 20 + rank % 3, size, rank + 1));
      expect_merges(parts, std::to_string(workers) + " workers, size " + std::to_string(size));
    }
  }
}

TEST(Sparse, MergeOfUnlikeParts) {
  const auto all = random_entries(100'000, 300'000, 1);
  expect_merges({}, "no part");
  expect_merges({{}, {}, {}}, "empty parts");
  expect_merges({{}, random_entries(40'000, 1'000'000, 2), {}}, "one part has all");
  expect_merges({all, all, all}, "identical supports");
  Entries low = random_entries(50'000, 1'000'000, 3);
  Entries high = random_entries(50'000, 1'000'000, 4);
  for (auto& index : high.indices) index += 4'000'000'000U;
  expect_merges({high, low}, "disjoint ranges, up to the last indices");
  expect_merges({{{0, 0xFFFF'FFFFU}, {1.0F, 2.0F}}, {{0xFFFF'FFFFU}, {3.0F}}}, "both ends of the index space");
}

TEST(Sparse, MergeStartsFromTheFirstValue) {
  // As dense sums do: 0 + (-0) would be +0.
  expect_merges({{{5, 6}, {-0.0F, -0.0F}}, {{6, 7, 8}, {-0.0F, 1.0F, -0.0F}}, {{8}, {0.0F}}}, "negative zero");
}

TEST(Sparse, MergeAllocatesNothingAfterItsFirstCall) {
  std::vector<Entries> parts{random_entries(60'000, 1'000'000, 1), random_entries(60'000, 1'000'000, 2)};
  std::vector<ConstSparseView> views{parts[0].view(), parts[1].view()};
  std::vector<std::uint32_t> indices(120'000);
  std::vector<float> values(120'000);
  for_each_place([&](Place& place) {
    merge_sum(place, views, {indices, values});
    const auto before = test::allocation_count();
    merge_sum(place, views, {indices, values});
    EXPECT_EQ(test::allocation_count(), before);
  });
}

TEST(Sparse, TellsTheHostWhereBoundsCutAList) {
  for_each_place([](Place& place) {
    const std::vector<std::uint32_t> indices{3, 4, 9, 0xFFFF'FFFF};
    const std::vector<std::uint64_t> bounds{0, 3, 4, 5, 9, 10, std::uint64_t{1} << 32};
    std::vector<std::uint64_t> counts(bounds.size());
    count_below(place, indices, bounds, counts);
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{0, 0, 1, 2, 2, 3, 4}));
    count_below(place, {}, bounds, counts);
    EXPECT_EQ(counts, std::vector<std::uint64_t>(bounds.size(), 0));
    std::vector<std::uint64_t> entries{3, 0, 2, 2};
    read_indices(place, indices, entries, entries);
    EXPECT_EQ(entries, (std::vector<std::uint64_t>{0xFFFF'FFFF, 3, 9, 9}));
  });
}

TEST(Sparse, RefusesTooSmallASum) {
  Place place({.threads = 1});
  const Entries part{{1, 2, 3}, {1, 2, 3}};
  const std::vector<ConstSparseView> views{part.view(), part.view()};
  std::vector<std::uint32_t> indices(5);
  std::vector<float> values(6);
  const auto text = test::message_of<InvalidConfig>([&] { merge_sum(place, views, {indices, values}); });
  EXPECT_TRUE(test::contains(text, "5 entries, expected at least 6")) << text;
}

}  // namespace
}  // namespace laconic
