#include <gtest/gtest.h>

#include <cmath>

#include "exchange/broadcast.h"
#include "exchange/checks_list.h"
#include "exchange/dense_sum.h"
#include "exchange/model.h"
#include "exchange/worker.h"
#include "laconic/error.h"
#include "support/placed_values.h"

namespace laconic::test {

void check_dense_plain_sum(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto order : {SumOrder::rank_order, SumOrder::engine}) {
    for (const std::size_t n : {0U, 1U, 2U, 1009U}) {
      std::vector<double> expected(n, 0.0);
      for (int rank = 0; rank < communicator.size(); ++rank) {
        const auto part = integers_of(rank, n, 21);
        for (std::size_t i = 0; i < n; ++i) expected[i] += static_cast<double>(part[i]);
      }
      const PlacedValues values(place, integers_of(communicator.rank(), n, 21));
      DenseSum sum(communicator, place, n, {.order = order, .divide = false});
      const PlacedStatus status(place);
      sum.start(values.view(), status.view());
      sum.finish();
      const auto mine = values.get();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mine[i], expected[i]) << "n=" << n << " i=" << i;
    }
  }
}

void check_broadcast(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const std::uint64_t n : {0U, 1U, 17U, 100'003U}) {
    Broadcast broadcast(communicator, place, n);
    for (int root = 0; root < communicator.size(); ++root) {
      const PlacedValues values(place, values_of(communicator.rank(), n, 31));
      const PlacedStatus status(place);
      broadcast.start(values.view(), root, status.view());
      broadcast.finish();
      EXPECT_TRUE(same_bits(values.get(), values_of(root, n, 31))) << "n=" << n << " root=" << root;
      EXPECT_EQ(status.read().nonfinite, 0U);
      // Around the ring from the root: every rank but the last hands it on, every rank but the root receives it.
      const bool last = (communicator.rank() + 1) % communicator.size() == root;
      EXPECT_EQ(broadcast.traffic().sent_bytes, last ? 0U : n * 4 + 32);
      EXPECT_EQ(broadcast.traffic().sent_messages, last ? 0U : 1U);
      EXPECT_EQ(broadcast.traffic().received_bytes, communicator.rank() == root ? 0U : n * 4 + 32);
    }
  }
  Broadcast narrow(communicator, place, 1'000, ValueFormat::bf16);
  const PlacedValues rounded(place, values_of(communicator.rank(), 1'000, 31));
  const PlacedStatus status(place);
  narrow.start(rounded.view(), 0, status.view());
  narrow.finish();
  auto sent = values_of(0, 1'000, 31);
  std::vector<float> errors(sent.size());
  Status own_status;
  round_through_16bit(worker.cpu(), ValueFormat::bf16, sent, errors, view_of(own_status));
  EXPECT_TRUE(same_bits(rounded.get(), sent));
  EXPECT_LE(narrow.traffic().sent_bytes, 2'032U);
  const int root = communicator.size() - 1;
  Broadcast broadcast(communicator, place, 5);
  const PlacedValues values(place, std::vector<float>(5, communicator.rank() == root ? std::nanf("") : 1.0F));
  broadcast.start(values.view(), root, status.view());
  broadcast.finish();
  EXPECT_EQ(status.read().nonfinite, 1U);
  EXPECT_EQ(status.read().nonfinite_rank, static_cast<std::uint32_t>(communicator.size()));
  EXPECT_THROW(broadcast.start(values.view(), communicator.size(), status.view()), InvalidConfig);
}

}  // namespace laconic::test
