#include <gtest/gtest.h>

#include "base/philox.h"
#include "exchange/checks_list.h"
#include "exchange/dense_sum.h"
#include "exchange/host_ranges.h"
#include "exchange/model.h"
#include "kernels/convert/convert.h"
#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

const std::vector<std::size_t> kSizes{0, 1, 2, 7, 15, 16, 17, 64, 1009, 1'000'000};

std::vector<std::vector<float>> all_values(Communicator& communicator, std::size_t n, std::uint64_t seed) {
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < communicator.size(); ++rank) parts.push_back(values_of(rank, n, seed));
  return parts;
}

/// What a receiver sees of values sent in a format.
std::vector<float> through(Place& place, std::vector<float> values, ValueFormat format) {
  if (format == ValueFormat::f32) return values;
  Status status;
  std::vector<std::uint16_t> bits(values.size());
  to_16bit(place, values, format, bits, view_of(status));
  from_16bit(place, bits, format, values);
  return values;
}

std::uint64_t dense_sent(int ranks, std::size_t n, std::uint64_t value_bytes, int rank) {
  const auto w = static_cast<std::uint64_t>(ranks);
  const auto r = static_cast<std::uint64_t>(rank);
  const auto border = [&](std::uint64_t i) { return n / w * i + n % w * i / w; };
  const std::uint64_t own = border(r + 1) - border(r);
  return (n - own) * value_bytes + own * value_bytes * (w - 1) + 2 * (w - 1) * 32;
}

}  // namespace

void check_dense(Communicator& communicator) {
  Place& place = place_of(communicator);
  for (const auto format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    for (const std::size_t n : kSizes) {
      auto parts = all_values(communicator, n, n + 3);
      auto mine = parts[static_cast<std::size_t>(communicator.rank())];
      DenseSum sum(communicator, place, n, {.format = format});
      Status status;
      sum.start(mine, view_of(status));
      sum.finish();
      for (auto& part : parts) part = through(place, part, format);
      EXPECT_TRUE(same_bits(mine, through(place, mean_of(parts), format))) << format_name(format) << " n=" << n;
      EXPECT_EQ(status.nonfinite, 0U);
      // Values are 4 or 2 bytes; a body of 2-byte values may be filled up to a word.
      const auto expected = dense_sent(communicator.size(), n, bytes_of(format), communicator.rank());
      EXPECT_GE(sum.traffic().sent_bytes, expected);
      EXPECT_EQ(sum.traffic().sent_messages, 2 * static_cast<std::uint64_t>(communicator.size() - 1));
      EXPECT_LE(sum.traffic().sent_bytes, expected + 4 * 2 * static_cast<std::uint64_t>(communicator.size()));
    }
  }
}

/// The two halves of a dense mean, one after the other, are the mean; in exchanges that are used again with other sizes.
void check_host_ranges(Communicator& communicator) {
  Place& place = place_of(communicator);
  ScatteredMean scattered(communicator, place);
  GatheredRanges gathered(communicator, place);
  for (const std::size_t n : kSizes) {
    const auto parts = all_values(communicator, n, n + 3);
    const auto& mine = parts[static_cast<std::size_t>(communicator.rank())];
    const auto borders = even_borders(n, communicator.size());
    const std::uint64_t begin = borders[static_cast<std::size_t>(communicator.rank())];
    const std::uint64_t end = borders[static_cast<std::size_t>(communicator.rank()) + 1];
    std::vector<float> own(end - begin);
    Status status;
    scattered.start(mine, own, view_of(status));
    scattered.finish();
    const auto mean = mean_of(parts);
    EXPECT_TRUE(same_bits(own, {mean.begin() + static_cast<std::ptrdiff_t>(begin),
                                mean.begin() + static_cast<std::ptrdiff_t>(end)}))
        << "n=" << n;
    std::vector<float> all(n);
    gathered.start(own, all, view_of(status));
    gathered.finish();
    EXPECT_TRUE(same_bits(all, mean)) << "n=" << n;
    EXPECT_EQ(scattered.traffic().sent_bytes + gathered.traffic().sent_bytes,
              dense_sent(communicator.size(), n, sizeof(float), communicator.rank()));
    EXPECT_EQ(status.nonfinite, 0U);
    std::vector<float> wrong(own.size() + 1);
    EXPECT_THROW(scattered.start(mine, wrong, view_of(status)), InvalidConfig);
    EXPECT_THROW(gathered.start(wrong, all, view_of(status)), InvalidConfig);
  }
}

void check_dense_engine(Communicator& communicator) {
  Place& place = place_of(communicator);
  for (const std::size_t n : kSizes) {
    std::vector<std::vector<float>> parts;
    for (int rank = 0; rank < communicator.size(); ++rank) parts.push_back(integers_of(rank, n, 9));
    auto mine = parts[static_cast<std::size_t>(communicator.rank())];
    DenseSum sum(communicator, place, n, {.order = SumOrder::engine});
    Status status;
    sum.start(mine, view_of(status));
    sum.finish();
    // Integers sum exactly in any order; only the sign of a zero is the engine's.
    const auto expected = mean_of(parts);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mine[i], expected[i]) << "n=" << n << " i=" << i;
  }
  EXPECT_THROW(DenseSum(communicator, place, 8, {.order = SumOrder::engine, .format = ValueFormat::f16}),
               InvalidConfig);
}

void check_dense_several_in_flight(Communicator& communicator) {
  Place& place = place_of(communicator);
  const std::size_t n = 4099;
  const std::size_t flights = 4;
  std::vector<std::unique_ptr<Communicator>> queues;
  std::vector<std::unique_ptr<DenseSum>> sums;
  std::vector<std::vector<float>> values;
  std::vector<Status> statuses(flights);
  for (std::uint64_t i = 0; i < flights; ++i) {
    queues.push_back(communicator.duplicate());
    sums.push_back(std::make_unique<DenseSum>(*queues.back(), place, n));
    values.push_back(values_of(communicator.rank(), n, 50 + i));
  }
  for (std::size_t i = 0; i < flights; ++i) sums[i]->start(values[i], view_of(statuses[i]));
  // Each has a queue of its own, so every rank may drive them in another order.
  bool all_done = false;
  for (int round = 0; round < 10'000 && !all_done; ++round) {
    all_done = true;
    for (std::size_t i = 0; i < flights; ++i) {
      const std::size_t chosen = (i + static_cast<std::size_t>(communicator.rank())) % flights;
      all_done = sums[chosen]->advance() && all_done;
    }
  }
  for (std::size_t i = flights; i-- > 0;) sums[i]->finish();
  for (std::uint64_t i = 0; i < flights; ++i) {
    EXPECT_TRUE(same_bits(values[i], mean_of(all_values(communicator, n, 50 + i)))) << i;
  }
}

void check_block(Communicator& communicator) {
  Place& place = place_of(communicator);
  const std::vector<std::uint64_t> sizes{100, 1, 5003, 33};
  std::uint64_t total = 0;
  for (const auto size : sizes) total += size;
  for (const auto order : {SumOrder::rank_order, SumOrder::engine}) {
    for (std::uint32_t step = 0; step < 5; ++step) {
      std::vector<Block> blocks;
      std::uint64_t offset = 0;
      for (std::uint32_t tensor = 0; tensor < sizes.size(); ++tensor) {
        const RandomStream stream{7, step, kSharedRank, tensor, Purpose::block_start};
        const std::uint64_t size = sizes[tensor];
        blocks.push_back({offset, size, draw_below(stream, 0, size), std::max<std::uint64_t>(1, size / 4)});
        offset += size;
      }
      std::vector<std::vector<float>> picked;
      for (int rank = 0; rank < communicator.size(); ++rank) {
        const auto flat = integers_of(rank, total, step + 1);
        auto& own = picked.emplace_back();
        for (const Block& block : blocks) {
          for (std::uint64_t i = 0; i < block.count; ++i) {
            own.push_back(flat[block.offset + (block.start + i) % block.size]);
          }
        }
      }
      const auto flat = integers_of(communicator.rank(), total, step + 1);
      std::vector<float> mean(blocks_size(blocks));
      BlockSum sum(communicator, place, mean.size(), {.order = order});
      Status status;
      sum.start(flat, blocks, mean, view_of(status));
      sum.finish();
      const auto expected = mean_of(picked);
      for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(mean[i], expected[i]) << i;
    }
  }
}

void check_block_refuses_other_blocks(Communicator& communicator) {
  if (communicator.size() < 2) return;
  Place& place = place_of(communicator);
  const std::vector<float> flat(100, 1.0F);
  // The last rank drew another block, as one with another seed would.
  const bool odd_one = communicator.rank() == communicator.size() - 1;
  const std::vector<Block> blocks{{0, 100, odd_one ? 3U : 2U, 40}};
  std::vector<float> mean(40);
  BlockSum sum(communicator, place, mean.size());
  Status status;
  const auto run = [&] {
    sum.start(flat, blocks, mean, view_of(status));
    sum.finish();
  };
  const auto text = message_of<Error>(run);
  EXPECT_TRUE(contains(text, "for other blocks")) << text;
}

}  // namespace laconic::test
