#include <gtest/gtest.h>

#include "base/philox.h"
#include "exchange/checks_list.h"
#include "exchange/dense_sum.h"
#include "exchange/host_ranges.h"
#include "exchange/model.h"
#include "exchange/worker.h"
#include "kernels/convert/convert.h"
#include "laconic/error.h"
#include "support/placed_values.h"
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
std::vector<float> through(Place& cpu, std::vector<float> values, ValueFormat format) {
  if (format == ValueFormat::f32) return values;
  Status status;
  std::vector<std::uint16_t> bits(values.size());
  to_16bit(cpu, values, format, bits, view_of(status));
  from_16bit(cpu, bits, format, values);
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

void check_dense(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    for (const std::size_t n : kSizes) {
      auto parts = all_values(communicator, n, n + 3);
      const PlacedValues mine(place, parts[static_cast<std::size_t>(communicator.rank())]);
      DenseSum sum(communicator, place, n, {.format = format});
      const PlacedStatus status(place);
      sum.start(mine.view(), status.view());
      sum.finish();
      for (auto& part : parts) part = through(worker.cpu(), part, format);
      const auto expected_mean = through(worker.cpu(), mean_of(parts), format);
      EXPECT_TRUE(same_bits(mine.get(), expected_mean)) << format_name(format) << " n=" << n;
      EXPECT_EQ(status.read().nonfinite, 0U);
      // Values are 4 or 2 bytes; a body of 2-byte values may be filled up to a word.
      const auto expected = dense_sent(communicator.size(), n, bytes_of(format), communicator.rank());
      EXPECT_GE(sum.traffic().sent_bytes, expected);
      EXPECT_EQ(sum.traffic().sent_messages, 2 * static_cast<std::uint64_t>(communicator.size() - 1));
      EXPECT_LE(sum.traffic().sent_bytes, expected + 4 * 2 * static_cast<std::uint64_t>(communicator.size()));
    }
  }
}

/// The two halves of a dense mean, one after the other, are the mean; in exchanges that are used again with other
/// sizes.
void check_host_ranges(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  ScatteredMean scattered(communicator, place);
  GatheredRanges gathered(communicator, place);
  for (const std::size_t n : kSizes) {
    const auto parts = all_values(communicator, n, n + 3);
    const PlacedValues mine(place, parts[static_cast<std::size_t>(communicator.rank())]);
    const auto borders = even_borders(n, communicator.size());
    const std::uint64_t begin = borders[static_cast<std::size_t>(communicator.rank())];
    const std::uint64_t end = borders[static_cast<std::size_t>(communicator.rank()) + 1];
    const PlacedValues own(place, std::vector<float>(end - begin));
    const PlacedStatus status(place);
    scattered.start(mine.view(), own.view(), status.view());
    scattered.finish();
    const auto mean = mean_of(parts);
    EXPECT_TRUE(same_bits(own.get(), {mean.begin() + static_cast<std::ptrdiff_t>(begin),
                                      mean.begin() + static_cast<std::ptrdiff_t>(end)}))
        << "n=" << n;
    const PlacedValues all(place, std::vector<float>(n));
    gathered.start(own.view(), all.view(), status.view());
    gathered.finish();
    EXPECT_TRUE(same_bits(all.get(), mean)) << "n=" << n;
    EXPECT_EQ(scattered.traffic().sent_bytes + gathered.traffic().sent_bytes,
              dense_sent(communicator.size(), n, sizeof(float), communicator.rank()));
    EXPECT_EQ(status.read().nonfinite, 0U);
    const PlacedValues wrong(place, std::vector<float>(end - begin + 1));
    EXPECT_THROW(scattered.start(mine.view(), wrong.view(), status.view()), InvalidConfig);
    EXPECT_THROW(gathered.start(wrong.view(), all.view(), status.view()), InvalidConfig);
  }
}

void check_dense_engine(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const std::size_t n : kSizes) {
    std::vector<std::vector<float>> parts;
    for (int rank = 0; rank < communicator.size(); ++rank) parts.push_back(integers_of(rank, n, 9));
    const PlacedValues values(place, parts[static_cast<std::size_t>(communicator.rank())]);
    DenseSum sum(communicator, place, n, {.order = SumOrder::engine});
    const PlacedStatus status(place);
    sum.start(values.view(), status.view());
    sum.finish();
    // Integers sum exactly in any order; only the sign of a zero is the engine's.
    const auto expected = mean_of(parts);
    const auto mine = values.get();
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mine[i], expected[i]) << "n=" << n << " i=" << i;
  }
  EXPECT_THROW(DenseSum(communicator, place, 8, {.order = SumOrder::engine, .format = ValueFormat::f16}),
               InvalidConfig);
}

void check_dense_several_in_flight(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const std::size_t n = 4099;
  const std::size_t flights = 4;
  std::vector<std::unique_ptr<Communicator>> queues;
  std::vector<std::unique_ptr<DenseSum>> sums;
  std::vector<std::unique_ptr<PlacedValues>> values;
  std::vector<std::unique_ptr<PlacedStatus>> statuses;
  for (std::uint64_t i = 0; i < flights; ++i) {
    queues.push_back(communicator.duplicate());
    sums.push_back(std::make_unique<DenseSum>(*queues.back(), place, n));
    values.push_back(std::make_unique<PlacedValues>(place, values_of(communicator.rank(), n, 50 + i)));
    statuses.push_back(std::make_unique<PlacedStatus>(place));
  }
  for (std::size_t i = 0; i < flights; ++i) sums[i]->start(values[i]->view(), statuses[i]->view());
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
    EXPECT_TRUE(same_bits(values[i]->get(), mean_of(all_values(communicator, n, 50 + i)))) << i;
  }
}

void check_block(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
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
      const PlacedValues flat(place, integers_of(communicator.rank(), total, step + 1));
      const PlacedValues placed_mean(place, std::vector<float>(blocks_size(blocks)));
      BlockSum sum(communicator, place, blocks_size(blocks), {.order = order});
      const PlacedStatus status(place);
      sum.start(flat.view(), blocks, placed_mean.view(), status.view());
      sum.finish();
      const auto expected = mean_of(picked);
      const auto mean = placed_mean.get();
      for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(mean[i], expected[i]) << i;
    }
  }
}

void check_block_refuses_other_blocks(Worker& worker) {
  Communicator& communicator = worker.communicator();
  if (communicator.size() < 2) return;
  Place& place = worker.place();
  const PlacedValues flat(place, std::vector<float>(100, 1.0F));
  // The last rank drew another block, as one with another seed would.
  const bool odd_one = communicator.rank() == communicator.size() - 1;
  const std::vector<Block> blocks{{0, 100, odd_one ? 3U : 2U, 40}};
  const PlacedValues mean(place, std::vector<float>(40));
  BlockSum sum(communicator, place, 40);
  const PlacedStatus status(place);
  const auto run = [&] {
    sum.start(flat.view(), blocks, mean.view(), status.view());
    sum.finish();
  };
  const auto text = message_of<Error>(run);
  EXPECT_TRUE(contains(text, "for other blocks")) << text;
}

}  // namespace laconic::test
