#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "exchange/checks_list.h"
#include "exchange/model.h"
#include "exchange/sparse_sum.h"
#include "exchange/worker.h"
#include "kernels/coded/coded.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// What the owners kept, as a dense vector. Collective.
std::vector<float> left_of_all(Worker& worker, const SparseSum& sum, std::uint64_t n) {
  const ConstSparseView placed = sum.left();
  std::vector<std::uint32_t> indices(placed.size());
  std::vector<float> values(placed.size());
  copy_to_cpu(worker.place(), placed.indices, indices.data());
  copy_to_cpu(worker.place(), placed.values, values.data());
  std::vector<float> left(n, 0.0F);
  for (std::size_t i = 0; i < indices.size(); ++i) left[indices[i]] = values[i];
  worker.communicator().all_reduce(left, Reduction::sum).wait();
  return left;
}

/// What union = keep returns: of each owner's range its share of k, the largest by magnitude, equals by lowest index.
std::map<std::uint32_t, float> largest_of(const std::map<std::uint32_t, float>& sums, std::uint64_t k,
                                          const std::vector<std::uint64_t>& borders) {
  std::map<std::uint32_t, float> returned;
  const std::uint64_t owners = borders.size() - 1;
  for (std::uint64_t owner = 0; owner < owners; ++owner) {
    std::vector<std::pair<std::uint32_t, float>> own;
    for (const auto& [index, sum] : sums) {
      if (index >= borders[owner] && index < borders[owner + 1]) own.emplace_back(index, sum);
    }
    std::stable_sort(own.begin(), own.end(),
                     [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
    const std::uint64_t share = k / owners + (owner < k % owners ? 1 : 0);
    own.resize(std::min<std::size_t>(own.size(), share));
    returned.insert(own.begin(), own.end());
  }
  return returned;
}

const std::vector<std::uint32_t> kScopeStarts{0, 7, 400, 401, 2'000};

/// The scopes that checks cut the indices into. `placed_starts` is kScopeStarts in the memory of a place.
std::vector<ScopeCuts> some_cuts(View<const std::uint32_t> placed_starts) {
  return {{}, {.each = 150}, {.starts = kScopeStarts, .device_starts = placed_starts}};
}

/// Entries of every rank, coded as a method codes them before it sends.
std::vector<Entries> coded_entries(Worker& worker, std::uint64_t n, std::uint64_t count, ValueFormat format,
                                   const ScopeCuts& cuts) {
  std::vector<Entries> parts = all_entries(worker.size(), n, count, 0.7, 12);
  for (Entries& part : parts) {
    std::vector<float> errors(part.values.size());
    Status status;
    code_values(worker.cpu(), format, cuts, cuts.of(0, n), {part.indices, part.values}, errors, view_of(status));
  }
  return parts;
}

}  // namespace

void check_sparse_keep(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const std::uint64_t n = 30'011;
  const std::uint64_t k = 301;
  SparseSum sum(communicator, place, n, k, {.coded_return = true});
  for (const double shared : {1.0, 0.5, 0.0}) {
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto parts = all_entries(worker.size(), n, k, shared, 31 + step);
      const Entries& mine = own(parts, worker);
      const PlacedEntries placed(place, mine);
      const PlacedValues placed_mean(place, std::vector<float>(n));
      const PlacedValues placed_means(place, std::vector<float>(k, 99.0F));
      const PlacedStatus status(place);
      const std::vector<std::uint64_t> borders(sum.borders().begin(), sum.borders().end());
      sum.start(placed.view(), placed_mean.view(), status.view(), placed_means.view());
      sum.finish();
      const auto mean = placed_mean.get();
      const auto own_means = placed_means.get();
      const auto largest = largest_of(sums_of(parts), k, borders);
      ASSERT_EQ(sum.last_union(), largest.size());
      std::vector<float> returned(n, 0.0F);
      for (const auto& [index, value] : largest) returned[index] = value / static_cast<float>(ranks);
      ASSERT_TRUE(same_bits(mean, returned));
      for (std::size_t i = 0; i < mine.indices.size(); ++i) ASSERT_EQ(own_means[i], returned[mine.indices[i]]);
      // Nothing is lost: W times the mean and all ranks' leftovers are the sum, exactly, integers being exact.
      const auto left = left_of_all(worker, sum, n);
      std::vector<double> expected(n, 0.0);
      for (const auto& [index, value] : sums_of(parts)) expected[index] = static_cast<double>(value);
      for (std::size_t i = 0; i < n; ++i) {
        // mean = sum/W rounded once: within half a unit in the last place of the sum.
        const double delivered =
            static_cast<double>(mean[i]) * static_cast<double>(ranks) + static_cast<double>(left[i]);
        ASSERT_NEAR(delivered, expected[i], std::abs(expected[i]) * 1e-6) << i;
        ASSERT_TRUE(left[i] == 0.0F || mean[i] == 0.0F) << i;
      }
    }
  }
}

void check_sparse_keep_16bit(Worker& worker) {
  Communicator& communicator = worker.communicator();
  // Sums beyond what 16 bits hold: their rounding must come back to the owner.
  Place& place = worker.place();
  const std::uint64_t n = 3'001;
  const std::uint64_t k = 200;
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16}) {
    SparseSum sum(communicator, place, n, k, {.format = format, .coded_return = true});
    auto parts = all_entries(worker.size(), n, k, 0.7, 12);
    for (auto& part : parts) {
      for (float& value : part.values) value = std::fmod(value, 129.0F);  // exact in both formats as they are sent
    }
    const PlacedEntries mine(place, own(parts, worker));
    const PlacedValues placed_mean(place, std::vector<float>(n));
    const PlacedStatus status(place);
    sum.start(mine.view(), placed_mean.view(), status.view());
    sum.finish();
    const auto mean = placed_mean.get();
    const auto left = left_of_all(worker, sum, n);
    std::vector<float> expected(n, 0.0F);
    for (const auto& [index, value] : sums_of(parts)) expected[index] = value;
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(mean[i] * static_cast<float>(communicator.size()) + left[i], expected[i], 1e-3) << i;
    }
  }
}

void check_sparse_coded(Worker& worker) {
  Communicator& communicator = worker.communicator();
  // Exact sums of values that share magnitudes, by either route.
  Place& place = worker.place();
  const std::uint64_t n = 3'001;
  const Placed<std::uint32_t> starts(place, kScopeStarts);
  for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
    for (const ScopeCuts& cuts : some_cuts(starts.view())) {
      const auto parts = coded_entries(worker, n, 200, format, cuts);
      const PlacedEntries mine(place, own(parts, worker));
      for (const auto route : {SparseRoute::automatic, SparseRoute::gather, SparseRoute::range}) {
        SparseSum sum(communicator, place, n, 200, {.route = route, .format = format, .cuts = cuts});
        for (int step = 0; step < 2; ++step) {  // with even borders, then with those that follow
          const PlacedValues mean(place, std::vector<float>(n));
          const PlacedStatus status(place);
          sum.start(mine.view(), mean.view(), status.view());
          sum.finish();
          EXPECT_TRUE(same_bits(mean.get(), dense_mean(parts, n))) << format_name(format);
        }
      }
    }
  }
}

void check_sparse_coded_return(Worker& worker) {
  Communicator& communicator = worker.communicator();
  // Owners code their largest sums in turn; what that leaves stays with them.
  Place& place = worker.place();
  const auto ranks = static_cast<float>(communicator.size());
  const std::uint64_t n = 3'001;
  const std::uint64_t k = 200;
  const Placed<std::uint32_t> starts(place, kScopeStarts);
  for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
    for (const ScopeCuts& cuts : some_cuts(starts.view())) {
      const auto parts = coded_entries(worker, n, k, format, cuts);
      const auto sums = sums_of(parts);
      const PlacedEntries mine(place, own(parts, worker));
      SparseSum sum(communicator, place, n, k, {.format = format, .cuts = cuts, .coded_return = true});
      for (int step = 0; step < 2; ++step) {
        const std::vector<std::uint64_t> borders(sum.borders().begin(), sum.borders().end());
        const PlacedValues placed_mean(place, std::vector<float>(n));
        const PlacedStatus status(place);
        sum.start(mine.view(), placed_mean.view(), status.view());
        sum.finish();
        const auto mean = placed_mean.get();
        Entries expected;
        for (std::size_t owner = 0; owner + 1 < borders.size(); ++owner) {
          Entries range;  // each owner has magnitudes of its own
          for (const auto& [index, value] : largest_of(sums, k, borders)) {
            if (index < borders[owner] || index >= borders[owner + 1]) continue;
            range.indices.push_back(index);
            range.values.push_back(value / ranks);
          }
          std::vector<float> errors(range.values.size());
          Status own_status;
          code_values(worker.cpu(), format, cuts, cuts.of(borders[owner], borders[owner + 1] - borders[owner]),
                      {range.indices, range.values}, errors, view_of(own_status));
          expected.indices.insert(expected.indices.end(), range.indices.begin(), range.indices.end());
          expected.values.insert(expected.values.end(), range.values.begin(), range.values.end());
        }
        ASSERT_EQ(sum.last_union(), expected.indices.size());
        std::vector<float> returned(n, 0.0F);
        for (std::size_t i = 0; i < expected.indices.size(); ++i) returned[expected.indices[i]] = expected.values[i];
        ASSERT_TRUE(same_bits(mean, returned)) << format_name(format);
        const auto left = left_of_all(worker, sum, n);
        for (const auto& [index, value] : sums) {
          ASSERT_NEAR(mean[index] * ranks + left[index], value, 1e-5F * (std::abs(value) + 1.0F)) << index;
        }
      }
    }
  }
}

}  // namespace laconic::test
