#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "exchange/checks_list.h"
#include "exchange/model.h"
#include "exchange/sparse_sum.h"
#include "exchange/worker.h"
#include "kernels/coded/coded.h"
#include "kernels/convert/convert.h"
#include "laconic/error.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::uint64_t payload_of(std::uint64_t count, std::uint64_t n, Place& cpu, const Entries& entries) {
  std::vector<std::byte> payload(sparse::max_payload_bytes(count, n, ValueFormat::f32));
  Status status;
  sparse::encode(cpu, entries.view(), {0, n}, ValueFormat::f32, payload, view_of(status));
  return status.payload_bytes;
}

}  // namespace

void check_sparse_routes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto route : {SparseRoute::automatic, SparseRoute::gather, SparseRoute::range}) {
    for (const auto& [n, count] :
         std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 1}, {7, 3}, {100, 100}, {1009, 10}, {40'001, 400}}) {
      SparseSum sum(communicator, place, n, count, {.route = route});
      for (const double shared : {1.0, 0.5, 0.0}) {
        for (std::uint64_t step = 0; step < 2; ++step) {
          const auto parts = all_entries(worker.size(), n, count, shared, 11 + step);
          const Entries& mine = own(parts, worker);
          const PlacedEntries placed(place, mine);
          const PlacedValues mean(place, std::vector<float>(n, 99.0F));
          const PlacedValues placed_means(place, std::vector<float>(mine.indices.size(), 99.0F));
          const PlacedStatus status(place);
          sum.start(placed.view(), mean.view(), status.view(), placed_means.view());
          sum.finish();
          const std::vector<float> expected = dense_mean(parts, n);
          EXPECT_TRUE(same_bits(mean.get(), expected)) << "n=" << n << " shared=" << shared;
          EXPECT_EQ(sum.last_union(), sums_of(parts).size());
          const auto own_means = placed_means.get();
          for (std::size_t i = 0; i < mine.indices.size(); ++i) EXPECT_EQ(own_means[i], expected[mine.indices[i]]);
        }
      }
      // A rank with nothing to say is welcome.
      auto parts = all_entries(worker.size(), n, count, 0.0, 5);
      parts[0] = {};
      const PlacedEntries mine(place, own(parts, worker));
      const PlacedValues mean(place, std::vector<float>(n));
      const PlacedStatus status(place);
      sum.start(mine.view(), mean.view(), status.view());
      sum.finish();
      EXPECT_TRUE(same_bits(mean.get(), dense_mean(parts, n)));
    }
  }
}

void check_sparse_leader(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto format : {ValueFormat::f32, ValueFormat::bf16, ValueFormat::sign}) {
    for (const auto& [n, count] :
         std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 1}, {100, 100}, {1009, 10}, {40'001, 400}}) {
      SparseSum sum(communicator, place, n, count, {.format = format});
      const std::vector<std::uint64_t> borders(sum.borders().begin(), sum.borders().end());
      for (int leader = 0; leader < communicator.size(); ++leader) {
        // What a receiver sees is what the method has made of the values before.
        const auto entries_as_sent = [&, n = n, count = count](int rank) {
          Entries entries = entries_of(rank, n, count, 0.5, 3);
          std::vector<float> errors(entries.values.size());
          const SparseView view{View<std::uint32_t>(entries.indices), View<float>(entries.values)};
          Place& cpu = worker.cpu();
          Status status;
          if (is_coded(format)) code_values(cpu, format, {}, ScopeCuts{}.of(0, n), view, errors, view_of(status));
          if (format == ValueFormat::bf16) round_through_16bit(cpu, format, view.values, errors, view_of(status));
          return entries;
        };
        const PlacedEntries mine(place, entries_as_sent(communicator.rank()));
        const Entries expected = entries_as_sent(leader);
        std::vector<float> dense(n, 0.0F);
        for (std::size_t i = 0; i < expected.indices.size(); ++i) dense[expected.indices[i]] = expected.values[i];
        const PlacedValues sent(place, std::vector<float>(n, 99.0F));
        const PlacedStatus status(place);
        const ConstSparseView given = communicator.rank() == leader ? mine.view() : ConstSparseView{};
        sum.start_from(leader, given, sent.view(), status.view());
        sum.finish();
        EXPECT_TRUE(same_bits(sent.get(), dense)) << format_name(format) << " n=" << n << " leader=" << leader;
        EXPECT_EQ(sum.left().size(), 0U);
        EXPECT_EQ(sum.last_union(), SparseSum::kNoUnion);
        EXPECT_TRUE(std::equal(borders.begin(), borders.end(), sum.borders().begin()));
        const bool last = (communicator.rank() + 1) % communicator.size() == leader;
        const bool leads = communicator.rank() == leader;
        EXPECT_EQ(sum.traffic().sent_messages, last ? 0U : 2U);
        EXPECT_EQ(sum.traffic().sent_bytes == 0, last);
        EXPECT_EQ(sum.traffic().received_bytes == 0, leads);
        if (leads && !last) {
          EXPECT_EQ(sum.traffic().sent_bytes, sum.traffic().payload_bytes + 8);
        }
      }
    }
  }
  SparseSum sum(communicator, place, 5, 1);
  const PlacedValues sent(place, std::vector<float>(5));
  const PlacedStatus status(place);
  const PlacedEntries bad(place, {.indices = {2}, .values = {std::nanf("")}});
  const int leader = communicator.size() - 1;
  sum.start_from(leader, bad.view(), sent.view(), status.view());
  sum.finish();
  EXPECT_EQ(status.read().nonfinite, 1U);
  EXPECT_EQ(status.read().nonfinite_rank, static_cast<std::uint32_t>(communicator.size()));
  EXPECT_THROW(sum.start_from(communicator.size(), {}, sent.view(), status.view()), InvalidConfig);
}

void check_sparse_16bit(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const std::uint64_t n = 5000;
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16}) {
    std::vector<std::vector<float>> results;
    for (const auto route : {SparseRoute::gather, SparseRoute::range}) {
      SparseSum sum(communicator, place, n, 300, {.route = route, .format = format});
      auto entries = entries_of(communicator.rank(), n, 300, 0.5, 3);
      for (float& value : entries.values) value *= 0.001F;
      const PlacedEntries mine(place, entries);
      const PlacedValues mean(place, std::vector<float>(n));
      const PlacedStatus status(place);
      sum.start(mine.view(), mean.view(), status.view());
      sum.finish();
      results.push_back(mean.get());
    }
    EXPECT_TRUE(same_bits(results[0], results[1])) << format_name(format);
    auto parts = all_entries(worker.size(), n, 300, 0.5, 3);
    for (auto& part : parts) {
      for (float& value : part.values) value *= 0.001F;
    }
    const auto exact = dense_mean(parts, n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(results[0][i], exact[i], 0.01 * 1.0) << i;
  }
}

void check_sparse_choice(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const std::uint64_t n = 20'000;
  const std::uint64_t k = 100;
  const auto route_after = [&](double shared) {
    SparseSum sum(communicator, place, n, k);
    for (int step = 0; step < 2; ++step) {
      const PlacedValues mean(place, std::vector<float>(n));
      const PlacedStatus status(place);
      const PlacedEntries entries(place, entries_of(communicator.rank(), n, k, shared, 4));
      sum.start(entries.view(), mean.view(), status.view());
      sum.finish();
    }
    return sum.route();
  };
  const bool few = communicator.size() <= 2;
  EXPECT_EQ(route_after(1.0), few ? SparseRoute::gather : SparseRoute::range);
  EXPECT_EQ(route_after(0.0), SparseRoute::gather);  // disjoint supports: the union is as long as all payloads
  // Signs of all entries have no indices: a sum that comes back exactly is 32 times as long.
  SparseSum signs(communicator, place, 600, 600, {.format = ValueFormat::sign});
  Entries all;
  for (std::uint32_t i = 0; i < 600; ++i) all.indices.push_back(i), all.values.push_back(i % 3 == 0 ? -2.0F : 2.0F);
  const PlacedEntries mine(place, all);
  const PlacedValues mean(place, std::vector<float>(600));
  for (int step = 0; step < 2; ++step) {
    const PlacedStatus status(place);
    signs.start(mine.view(), mean.view(), status.view());
    signs.finish();
    EXPECT_EQ(signs.route(), SparseRoute::gather);
    EXPECT_LE(signs.traffic().payload_bytes, 600U / 8 + 60);
  }
  EXPECT_EQ(mean.get(), all.values);
}

void check_sparse_borders(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  const std::uint64_t n = 1'000'000;
  const std::uint64_t k = 4'000;
  // Everything lies in the first hundredth: with even borders rank 0 would own it all.
  const PlacedEntries crowded(place, entries_of(communicator.rank(), n / 100, k, 1.0, 21));
  SparseSum sum(communicator, place, n, k, {.route = SparseRoute::range});
  const PlacedValues mean(place, std::vector<float>(n));
  const PlacedStatus status(place);
  std::uint64_t sent = 0;
  for (int step = 0; step < 2; ++step) {
    sum.start(crowded.view(), mean.view(), status.view());
    sum.finish();
    sent = sum.traffic().sent_bytes;
  }
  EXPECT_EQ(sum.traffic().sent_messages, 4 * static_cast<std::uint64_t>(communicator.size() - 1));  // its four stages
  const std::uint64_t payload = sum.traffic().payload_bytes;
  EXPECT_LE(static_cast<double>(sent),
            1.05 * 2.0 * static_cast<double>((ranks - 1) * payload) / static_cast<double>(ranks));

  // Lists with little in common, all in rank 0's range at first: of 7 ranks it returns more than there was room for.
  const auto disjoint = all_entries(worker.size(), n / 10, k, 0.0, 22);
  const PlacedEntries mine(place, own(disjoint, worker));
  SparseSum grows(communicator, place, n, k, {.route = SparseRoute::range});
  for (int step = 0; step < 2; ++step) {
    grows.start(mine.view(), mean.view(), status.view());
    grows.finish();
    EXPECT_TRUE(mean.get() == dense_mean(disjoint, n)) << "step " << step;
  }
}

void check_sparse_bytes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const double ranks = communicator.size();
  const std::uint64_t n = 1'000'000;
  const std::uint64_t k = 10'000;
  for (const double shared : {1.0, 0.5, 0.0}) {
    const auto parts = all_entries(worker.size(), n, k, shared, 77);
    Entries together;
    for (const auto& [index, value] : sums_of(parts)) {
      together.indices.push_back(index);
      together.values.push_back(value);
    }
    const auto payload = static_cast<double>(payload_of(k, n, worker.cpu(), own(parts, worker)));
    const auto union_payload = static_cast<double>(payload_of(together.indices.size(), n, worker.cpu(), together));
    const PlacedEntries mine(place, own(parts, worker));
    for (const bool keep : {false, true}) {
      SparseSum sum(communicator, place, n, k, {.route = SparseRoute::range, .coded_return = keep});
      const PlacedValues mean(place, std::vector<float>(n));
      const PlacedStatus status(place);
      for (int step = 0; step < 2; ++step) {
        sum.start(mine.view(), mean.view(), status.view());
        sum.finish();
      }
      const auto sent = static_cast<double>(sum.traffic().sent_bytes);
      // Framing weighs more here than at 25 million entries, where the bound is one percent.
      const double framing = 100.0 * ranks;
      const double bound = keep ? 2.1 * payload : 1.02 * (ranks - 1) / ranks * (payload + union_payload);
      EXPECT_LE(sent, bound + framing) << "shared=" << shared << " keep=" << keep;
    }
  }
}

}  // namespace laconic::test
