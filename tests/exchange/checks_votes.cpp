#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/buffer.h"
#include "base/philox.h"
#include "codecs/uniform.h"
#include "exchange/abstaining_vote.h"
#include "exchange/checks_list.h"
#include "exchange/dense_sum.h"
#include "exchange/gathered_numbers.h"
#include "exchange/model.h"
#include "exchange/packed_vote.h"
#include "exchange/quantized_sum.h"
#include "exchange/sparse_sum.h"
#include "exchange/worker.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "laconic/error.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {
namespace {

const std::vector<std::vector<std::uint64_t>> kLayouts{
    {0}, {1}, {31}, {32}, {33}, {5, 0, 64, 7}, {1000, 3, 40'000}, {511, 512, 513}, {100'003}};

float vote_model(const std::vector<std::vector<float>>& parts, std::size_t flat, std::uint32_t tensor,
                 std::uint64_t index, StepKey key, Ties ties) {
  std::size_t minus = 0;
  for (const auto& part : parts) minus += part[flat] < 0.0F ? 1 : 0;
  const std::size_t plus = parts.size() - minus;
  if (minus != plus) return minus > plus ? -1.0F : 1.0F;
  if (ties == Ties::plus) return 1.0F;
  const RandomStream stream{key.seed, key.step, kSharedRank, tensor, Purpose::vote_ties};
  return (draw32(stream, index / 32) >> (index % 32) & 1U) != 0 ? -1.0F : 1.0F;
}

}  // namespace

void check_vote(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto ties : {Ties::random, Ties::plus}) {
    for (const auto& sizes : kLayouts) {
      const Layout layout{std::span<const std::uint64_t>(sizes)};
      std::vector<std::vector<float>> parts;
      for (int rank = 0; rank < communicator.size(); ++rank) {
        parts.push_back(values_of(rank, layout.size(), 13));
        for (std::size_t i = 0; i < layout.size(); i += 5) parts.back()[i] = -0.0F;  // counts as plus
      }
      const StepKey key{17, 4, static_cast<std::uint32_t>(communicator.rank())};
      const PlacedValues placed(place, parts[static_cast<std::size_t>(communicator.rank())]);
      PackedVote vote(communicator, place, layout, ties);
      const PlacedStatus status(place);
      vote.start(placed.view(), key, placed.view(), status.view());
      vote.finish();
      const auto values = placed.get();
      layout.for_each_slice(0, layout.size(), [&](const Slice& slice) {
        for (std::uint64_t i = 0; i < slice.count; ++i) {
          ASSERT_EQ(values[slice.offset + i], vote_model(parts, slice.offset + i, slice.tensor, i, key, ties))
              << "tensor " << slice.tensor << " index " << i;
        }
      });
    }
  }
}

void check_vote_bytes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const double ranks = communicator.size();
  for (const std::uint64_t n : {1'000'000ULL, 1'000'003ULL}) {
    PackedVote vote(communicator, place, Layout(n));
    const PlacedValues values(place, values_of(communicator.rank(), n, 2));
    const PlacedStatus status(place);
    vote.start(values.view(), {1, 1, static_cast<std::uint32_t>(communicator.rank())}, values.view(), status.view());
    vote.finish();
    const double bits = 8.0 * static_cast<double>(vote.traffic().sent_bytes) / static_cast<double>(n);
    EXPECT_LE(bits, 1.01 * 2.0 * (ranks - 1) / ranks);
  }
}

void check_abstaining_vote(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const auto ties : {Ties::random, Ties::plus}) {
    for (const auto& sizes : kLayouts) {
      const Layout layout{std::span<const std::uint64_t>(sizes)};
      std::vector<std::vector<float>> parts;
      for (int rank = 0; rank < communicator.size(); ++rank) parts.push_back(values_of(rank, layout.size(), 13));
      const StepKey key{17, 4, static_cast<std::uint32_t>(communicator.rank())};
      const PlacedValues placed(place, parts[static_cast<std::size_t>(communicator.rank())]);
      AbstainingVote vote(communicator, place, layout, ties);
      const PlacedStatus status(place);
      vote.start(placed.view(), 0.6F, key, placed.view(), status.view());
      vote.finish();
      const auto values = placed.get();
      layout.for_each_slice(0, layout.size(), [&](const Slice& slice) {
        for (std::uint64_t i = 0; i < slice.count; ++i) {
          // Those who abstain are left out of the model's vote.
          std::vector<std::vector<float>> voters;
          for (const auto& part : parts) {
            if (std::abs(part[slice.offset + i]) >= 0.6F) voters.push_back({part[slice.offset + i]});
          }
          const float expected = voters.empty() ? 0.0F : vote_model(voters, 0, slice.tensor, i, key, ties);
          ASSERT_EQ(values[slice.offset + i], expected) << "tensor " << slice.tensor << " index " << i;
        }
      });
    }
  }
}

void check_gathered_numbers(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  GatheredNumbers numbers(communicator, place, 3);
  for (float step = 0.0F; step < 3.0F; step += 1.0F) {
    const auto of = [&](int rank, int i) { return step * 100.0F + static_cast<float>(rank * 10 + i); };
    const std::vector<float> mine{of(communicator.rank(), 0), of(communicator.rank(), 1), of(communicator.rank(), 2)};
    const PlacedStatus status(place);
    numbers.start(mine, status.view());
    numbers.finish();
    for (int rank = 0; rank < communicator.size(); ++rank) {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(numbers.of(rank)[static_cast<std::size_t>(i)], of(rank, i));
    }
    EXPECT_EQ(numbers.traffic().sent_bytes, 12U * static_cast<std::uint64_t>(communicator.size() - 1));
    EXPECT_EQ(numbers.traffic().sent_messages, static_cast<std::uint64_t>(communicator.size() - 1));
  }
}

void check_overflow(Worker& worker) {
  Communicator& communicator = worker.communicator();
  // Finite on every rank, not finite as a sum: flagged whatever the route.
  if (communicator.size() < 2) return;
  Place& place = worker.place();
  const PlacedEntries large(place, {.indices = {3}, .values = {3e38F}});
  for (const auto route : {SparseRoute::gather, SparseRoute::range}) {
    SparseSum sum(communicator, place, 10, 1, {.route = route});
    const PlacedValues mean(place, std::vector<float>(10));
    const PlacedStatus status(place);
    sum.start(large.view(), mean.view(), status.view());
    sum.finish();
    EXPECT_EQ(status.read().nonfinite, 1U) << static_cast<int>(route);
  }
  for (const auto route : {QuantizedRoute::gather, QuantizedRoute::scatter}) {
    const PlacedValues values(place, std::vector<float>(10, 3e38F));
    QuantizedSum sum(communicator, place, Layout(10), {.route = route, .norm = Norm::max});
    const PlacedStatus status(place);
    sum.start(values.view(), 4, {}, values.view(), status.view());
    sum.finish();
    EXPECT_EQ(status.read().nonfinite, 1U) << static_cast<int>(route);
  }
}

void check_quantized_routes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const int bits : {2, 4, 5, 8, 16}) {
    for (const auto& sizes : kLayouts) {
      const Layout layout{std::span<const std::uint64_t>(sizes)};
      const std::size_t n = layout.size();
      // The model: every rank's tensors quantized and added in rank order with the kernels alone.
      std::vector<float> expected(n, -0.0F);
      for (int rank = 0; rank < communicator.size(); ++rank) {
        const auto values = values_of(rank, n, 6);
        layout.for_each_slice(0, n, [&](const Slice& slice) {
          const auto tensor = View<const float>(values).sub(slice.offset, slice.count);
          std::vector<float> norm_value(1);
          Place& cpu = worker.cpu();
          Status status;
          norm(cpu, tensor, Norm::l2, norm_value, view_of(status));
          std::vector<std::byte> packed(quantized_bytes(slice.count, bits));
          const RandomStream stream{3, 8, static_cast<std::uint32_t>(rank), slice.tensor, Purpose::rounding};
          quantize(cpu, tensor, norm_value, {bits, stream, 0}, packed);
          dequantize_add(cpu, packed, norm_value, bits, View<float>(expected).sub(slice.offset, slice.count));
        });
      }
      for (float& value : expected) value = value / static_cast<float>(communicator.size());
      for (const auto route : {QuantizedRoute::gather, QuantizedRoute::scatter}) {
        QuantizedSum sum(communicator, place, layout, {.route = route});
        const PlacedValues values(place, values_of(communicator.rank(), n, 6));
        const PlacedStatus status(place);
        const StepKey key{3, 8, static_cast<std::uint32_t>(communicator.rank())};
        sum.start(values.view(), bits, key, values.view(), status.view());
        sum.finish();
        EXPECT_TRUE(same_bits(values.get(), expected)) << bits << " bits, " << sizes.size() << " tensors, n=" << n;
      }
    }
  }
}

/// By fixed scopes, with a norm for each and a rest: the routes agree with the kernels, and nothing is lost.
void check_quantized_scopes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  for (const std::uint64_t scope : {64ULL, 256ULL, 2048ULL}) {
    for (const std::size_t n : {0UL, 1UL, 300UL, 4096UL, 30'011UL}) {
      const Layout layout = Layout::in_scopes(n, scope);
      std::vector<float> expected(n, -0.0F);
      std::vector<std::vector<float>> rests;
      for (int rank = 0; rank < communicator.size(); ++rank) {
        const auto values = values_of(rank, n, 6);
        std::vector<float> norms(layout.scopes());
        std::vector<std::byte> packed(quantized_bytes(n, 4));
        rests.emplace_back(n);
        Place& cpu = worker.cpu();
        Status status;
        scope_norms(cpu, values, scope, Norm::max, norms, view_of(status));
        const Quantizer quantizer{.bits = 4, .rounding = {}, .kind = Rounding::nearest, .scope = scope};
        quantize(cpu, values, norms, quantizer, packed, rests.back());
        dequantize_add(cpu, packed, norms, 4, expected, scope);
      }
      const auto sum = expected;
      for (float& value : expected) value = value / static_cast<float>(communicator.size());
      const StepKey key{3, 8, static_cast<std::uint32_t>(communicator.rank())};
      for (const auto route : {QuantizedRoute::gather, QuantizedRoute::scatter}) {
        QuantizedSum exchange(communicator, place, layout,
                              {.route = route, .norm = Norm::max, .rounding = Rounding::nearest});
        const PlacedValues values(place, values_of(communicator.rank(), n, 6));
        const PlacedValues rest(place, std::vector<float>(n));
        const PlacedStatus status(place);
        exchange.start(values.view(), 4, key, values.view(), status.view(), 0.0F, rest.view());
        exchange.finish();
        EXPECT_TRUE(same_bits(values.get(), expected)) << "scope " << scope << " n " << n;
        EXPECT_TRUE(same_bits(rest.get(), rests[static_cast<std::size_t>(communicator.rank())]));
      }
      QuantizedSum exchange(communicator, place, layout,
                            {.route = QuantizedRoute::scatter,
                             .return_path = QuantizedReturn::requantized,
                             .norm = Norm::max,
                             .rounding = Rounding::nearest});
      const PlacedValues placed(place, values_of(communicator.rank(), n, 6));
      const PlacedValues placed_rest(place, std::vector<float>(n));
      const PlacedStatus status(place);
      exchange.start(placed.view(), 4, key, placed.view(), status.view(), 0.0F, placed_rest.view());
      exchange.finish();
      const auto values = placed.get();
      auto rest = placed_rest.get();
      communicator.all_reduce(rest, Reduction::sum).wait();
      for (std::size_t i = 0; i < n; ++i) {
        float had = 0.0F;
        for (const auto& each : rests) had += each[i];
        ASSERT_NEAR(values[i] * static_cast<float>(communicator.size()) + rest[i], sum[i] + had, 1e-4F) << i;
      }
    }
  }
}

/// The sums of a full return, quantized once more: owner by owner, with draws by coordinate that name no rank.
std::vector<float> requantized(Worker& worker, const Layout& layout, const std::vector<std::vector<float>>& parts,
                               std::uint32_t step) {
  constexpr int kBits = 4;
  const auto rank = static_cast<std::uint32_t>(worker.rank());
  const PlacedValues placed(worker.place(), parts[rank]);
  QuantizedSum full(worker.communicator(), worker.place(), layout,
                    {.route = QuantizedRoute::scatter, .norm = Norm::max});
  const PlacedStatus placed_status(worker.place());
  full.start(placed.view(), kBits, {3, step, rank}, placed.view(), placed_status.view());
  full.finish();
  const auto sum = placed.get();
  auto borders = even_borders(layout.size(), worker.size());
  for (auto& border : borders) border = layout.cut(border, kPackGroup);
  std::vector<float> returned(sum.size(), -0.0F);
  const RandomStream stream{3, step, kSharedRank, 0, Purpose::return_rounding};
  for (std::size_t owner = 0; owner + 1 < borders.size(); ++owner) {
    const std::uint64_t begin = borders[owner];
    const std::uint64_t end = borders[owner + 1];
    std::vector<float> norms(layout.tensors(), 0.0F);
    layout.for_each_slice(begin, end, [&](const Slice& slice) {
      for (std::uint64_t i = 0; i < slice.count; ++i) {
        norms[slice.tensor] = std::max(norms[slice.tensor], std::abs(sum[slice.offset + i]));
      }
    });
    Status status;
    Buffer<std::byte> payload(uniform::max_payload_bytes(layout, begin, end, kBits));
    uniform::encode(worker.cpu(), View<const float>(sum).sub(begin, end - begin), layout, begin, end, norms, kBits,
                    stream, payload.view(), view_of(status));
    uniform::decode_add(worker.cpu(), payload.view(), layout, begin, end, kBits,
                        View<float>(returned).sub(begin, end - begin), view_of(status));
  }
  return returned;
}

void check_quantized_requantized(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const std::vector<std::uint64_t> sizes{700, 3000};
  const Layout layout{std::span<const std::uint64_t>(sizes)};
  const std::size_t n = layout.size();
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < communicator.size(); ++rank) parts.push_back(values_of(rank, n, 6));
  const auto exact = mean_of(parts);
  QuantizedSum sum(communicator, place, layout,
                   {.route = QuantizedRoute::scatter, .return_path = QuantizedReturn::requantized, .norm = Norm::max});
  std::vector<double> mean_error(n, 0.0);
  const int steps = 200;
  for (int step = 0; step < steps; ++step) {
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    const PlacedValues placed(place, parts[rank]);
    const PlacedStatus status(place);
    sum.start(placed.view(), 4, {3, static_cast<std::uint32_t>(step), rank}, placed.view(), status.view());
    sum.finish();
    const auto values = placed.get();
    // The same bits everywhere: the largest and the smallest of all ranks' values are this one.
    auto largest = values;
    auto negated = values;
    for (float& value : negated) value = -value;
    communicator.all_reduce(largest, Reduction::max).wait();
    communicator.all_reduce(negated, Reduction::max).wait();
    if (step < 5) {
      const auto expected = requantized(worker, layout, parts, static_cast<std::uint32_t>(step));
      EXPECT_TRUE(same_bits(values, expected)) << "step " << step;
    }
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(values[i], largest[i]);
      ASSERT_EQ(values[i], -negated[i]);
      mean_error[i] += static_cast<double>(values[i] - exact[i]) / steps;
    }
  }
  // Unbiased: one step's error is below max/7 twice, about 0.9 at most with deviation below 0.5; the mean of 200 steps
  // deviates by 0.035, averaged over 3,700 entries by 0.0006. Ten deviations leave no chance of a false alarm.
  double average = 0.0;
  for (const double error : mean_error) average += error / static_cast<double>(n);
  EXPECT_NEAR(average, 0.0, 0.006);
}

void check_nonfinite(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const int culprit = communicator.size() / 2;
  const auto me = static_cast<std::uint32_t>(communicator.rank());
  const std::size_t n = 10'000;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto poisoned = [&] {
      auto values = values_of(communicator.rank(), n, 1);
      if (communicator.rank() == culprit) values[n - 2] = bad;
      return PlacedValues(place, values);
    };
    const auto expect_named = [&](const PlacedStatus& placed, const char* what) {
      const Status status = placed.read();
      EXPECT_EQ(status.nonfinite, 1U) << what;
      EXPECT_EQ(status.nonfinite_rank, static_cast<std::uint32_t>(culprit) + 1) << what;
    };
    for (const auto format : {ValueFormat::f32, ValueFormat::f16}) {
      const auto values = poisoned();
      DenseSum sum(communicator, place, n, {.format = format});
      const PlacedStatus status(place);
      sum.start(values.view(), status.view());
      sum.finish();
      expect_named(status, "dense");
    }
    {
      const auto values = poisoned();
      DenseSum sum(communicator, place, n, {.order = SumOrder::engine});
      const PlacedStatus status(place);
      sum.start(values.view(), status.view());
      sum.finish();
      EXPECT_EQ(status.read().nonfinite, 1U) << "an engine's sum shows it everywhere, but not whose it was";
    }
    for (const auto route : {SparseRoute::gather, SparseRoute::range}) {
      auto entries = entries_of(communicator.rank(), n, 100, 0.0, 2);
      if (communicator.rank() == culprit) entries.values[99] = bad;
      const PlacedEntries mine(place, entries);
      SparseSum sum(communicator, place, n, 100, {.route = route});
      const PlacedValues mean(place, std::vector<float>(n));
      const PlacedStatus status(place);
      sum.start(mine.view(), mean.view(), status.view());
      sum.finish();
      expect_named(status, "sparse");
    }
    {
      const auto values = poisoned();
      PackedVote vote(communicator, place, Layout(n));
      const PlacedStatus status(place);
      vote.start(values.view(), {1, 1, me}, values.view(), status.view());
      vote.finish();
      expect_named(status, "vote");
    }
    for (const auto route : {QuantizedRoute::gather, QuantizedRoute::scatter}) {
      const auto values = poisoned();
      QuantizedSum sum(communicator, place, Layout(n), {.route = route});
      const PlacedStatus status(place);
      sum.start(values.view(), 4, {1, 1, me}, values.view(), status.view());
      sum.finish();
      expect_named(status, "quantized");
    }
  }
}

void check_wrong_sizes(Worker& worker) {
  Communicator& communicator = worker.communicator();
  Place& place = worker.place();
  const PlacedStatus status(place);
  const PlacedValues values(place, std::vector<float>(10));
  const View<float> ten = values.view();
  DenseSum dense(communicator, place, 12);
  const auto text = message_of<InvalidConfig>([&] { dense.start(ten, status.view()); });
  EXPECT_TRUE(contains(text, "values has 10 entries, expected 12")) << text;
  QuantizedSum quantized(communicator, place, Layout(10));
  const auto bits = message_of<InvalidConfig>([&] { quantized.start(ten, 1, {}, ten, status.view()); });
  EXPECT_TRUE(contains(bits, "bits must be in 2..16, got 1")) << bits;
  SparseSum sparse(communicator, place, 10, 2);
  const PlacedEntries three(place, entries_of(0, 10, 3, 1.0, 1));
  const auto most = message_of<InvalidConfig>([&] { sparse.start(three.view(), ten, status.view()); });
  EXPECT_TRUE(contains(most, "at most 2 entries, got 3")) << most;
  EXPECT_THROW(SparseSum(communicator, place, 10, 11), InvalidConfig);
  PackedVote vote(communicator, place, Layout(11));
  EXPECT_THROW(vote.start(ten, {}, ten, status.view()), InvalidConfig);
}

}  // namespace laconic::test
