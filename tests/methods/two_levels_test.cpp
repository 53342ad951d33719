// Hosts with several ranks: every gradient method of the table between hosts, on the slices of local ranks.

#include "methods/two_levels.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <mutex>
#include <thread>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/same_bits.h"
#include "support/forwarding_communicator.h"
#include "support/one_order.h"
#include "support/rehearsal.h"

namespace laconic::test {
namespace {

struct Shape {
  int hosts;
  int local;
  int ranks() const { return hosts * local; }
};

std::vector<std::string> gradient_names() {
  std::vector<std::string> names;
  for (const MethodRow& row : method_table()) {
    if (row.face == Face::gradient) names.emplace_back(row.name);
  }
  return names;
}

/// Two cuts, of which one has a tensor that is larger than a cut; tensors without entries, and one of one entry.
std::vector<Tensor> large_model() {
  return {{"embedding", 3'001}, {"empty", 0}, {"norm", 5}, {"first", 1'050'001}, {"last", 403}, {"bias", 1}};
}

/// What a local rank has of each tensor, and where it begins in the flat gradient.
struct Slice {
  std::uint64_t begin;
  std::uint64_t size;
};

/// Neighbours from the end are cut together until they have 2^20 entries.
std::vector<Slice> slices_of(const std::vector<Tensor>& tensors, int local_ranks, int local) {
  std::vector<Slice> slices(tensors.size());
  std::uint64_t end = size_of(tensors);
  for (std::size_t last = tensors.size(); last > 0;) {
    std::size_t first = last;
    std::uint64_t size = 0;
    while (first > 0 && (size < (1U << 20) || tensors[first - 1].size == 0)) size += tensors[--first].size;
    const auto border = [&](int number) {
      const auto parts = static_cast<std::uint64_t>(local_ranks);
      const auto i = static_cast<std::uint64_t>(number);
      return end - size + size / parts * i + size % parts * i / parts;
    };
    std::uint64_t offset = end - size;
    for (std::size_t i = first; i < last; ++i) {
      const std::uint64_t begin = std::clamp(offset, border(local), border(local + 1));
      offset += tensors[i].size;
      slices[i] = {begin, std::clamp(offset, border(local), border(local + 1)) - begin};
    }
    end -= size;
    last = first;
  }
  return slices;
}

/// Other values for each rank and step. Drawing normal ones would take most of the test's time.
std::vector<float> gradient_of(const std::vector<Tensor>& tensors, int rank, std::uint32_t step) {
  std::vector<float> values(size_of(tensors));
  auto word = 2'654'435'761U * (1 + 100 * step + static_cast<std::uint32_t>(rank));
  for (float& value : values) {
    word = word * 1'664'525U + 1'013'904'223U;
    value = static_cast<float>(static_cast<std::int32_t>(word)) / 2147483648.0F;
  }
  return values;
}

std::vector<float> mean_in_host(const std::vector<Tensor>& tensors, Shape shape, int host, std::uint32_t step) {
  auto mean = gradient_of(tensors, host * shape.local, step);
  for (int local = 1; local < shape.local; ++local) {
    const auto other = gradient_of(tensors, host * shape.local + local, step);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
  }
  for (float& value : mean) value /= static_cast<float>(shape.local);
  return mean;
}

/// The aggregate of each step, made by the method itself on each local rank's slices of the hosts' means.
std::vector<std::vector<float>> expected_steps(const MethodRow& row, const MethodOptions& options,
                                               const std::vector<Tensor>& tensors, Shape shape, std::uint32_t steps) {
  std::vector<std::vector<float>> expected(steps, std::vector<float>(size_of(tensors)));
  for (int local = 0; local < shape.local; ++local) {
    const auto slices = slices_of(tensors, shape.local, local);
    std::vector<Tensor> cut = tensors;
    for (std::size_t i = 0; i < cut.size(); ++i) cut[i].size = slices[i].size;
    run_ranks(shape.hosts, [&](Communicator& between) {
      Place place({.threads = 1});
      const auto method = make_method(row.name, options, between, place);
      method->register_tensors(cut);
      for (std::uint32_t step = 0; step < steps; ++step) {
        const auto mean = mean_in_host(tensors, shape, between.rank(), step);
        std::vector<float> own;
        for (const Slice& slice : slices) {
          const auto begin = mean.begin() + static_cast<std::ptrdiff_t>(slice.begin);
          own.insert(own.end(), begin, begin + static_cast<std::ptrdiff_t>(slice.size));
        }
        method->reduce({.seed = seed_of_slice(42, local), .step = step}, own);
        if (between.rank() != 0) continue;
        auto from = own.begin();
        for (const Slice& slice : slices) {
          std::copy_n(from, slice.size, expected[step].begin() + static_cast<std::ptrdiff_t>(slice.begin));
          from += static_cast<std::ptrdiff_t>(slice.size);
        }
      }
    });
  }
  return expected;
}

/// One step with tensors that lie apart and arrive from the last to the first, as in backward.
void reduce_backward(GradientMethod& method, StepKey key, const std::vector<Tensor>& tensors,
                     std::vector<float>& flat) {
  std::vector<std::vector<float>> apart;
  auto from = flat.begin();
  for (const Tensor& tensor : tensors) {
    apart.emplace_back(from, from + static_cast<std::ptrdiff_t>(tensor.size));
    from += static_cast<std::ptrdiff_t>(tensor.size);
  }
  method.begin(key);
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const TensorPart part{static_cast<std::uint32_t>(i), View<float>(apart[i])};
    method.add({&part, 1});
    method.poll();
  }
  method.finish();
  flat.clear();
  for (const auto& each : apart) flat.insert(flat.end(), each.begin(), each.end());
}

void expect_the_method_on_slices(const MethodRow& row, const std::vector<Tensor>& tensors, Shape shape,
                                 std::uint32_t steps) {
  const auto expected = expected_steps(row, small_options(row), tensors, shape, steps);
  run_ranks(shape.ranks(), [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(shape.ranks(), shape.local));
    Place place({.threads = 1});
    const auto method = make_method(row.name, small_options(row), levels, place);
    method->register_tensors(tensors);
    for (std::uint32_t step = 0; step < steps; ++step) {
      auto gradient = gradient_of(tensors, communicator.rank(), step);
      if (step % 2 == 0) {
        method->reduce(key_of(communicator, step), gradient);
      } else {
        reduce_backward(*method, key_of(communicator, step), tensors, gradient);
      }
      ASSERT_EQ(std::memcmp(gradient.data(), expected[step].data(), gradient.size() * sizeof(float)), 0)
          << row.name << ", " << shape.hosts << " hosts of " << shape.local << ", step " << step << ", rank "
          << communicator.rank();
    }
  });
}

class TwoLevelTable : public testing::TestWithParam<std::string> {
 protected:
  const MethodRow& row() const { return method_row(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Table, TwoLevelTable, testing::ValuesIn(gradient_names()),
                         [](const auto& test) { return test_name(test.param); });

// One rank per host, and hosts of more ranks than the last tensors have entries, are there too.
TEST_P(TwoLevelTable, IsTheMethodOnTheSlices) {
  for (const Shape shape : {Shape{2, 2}, Shape{2, 4}, Shape{3, 2}, Shape{3, 1}, Shape{1, 3}}) {
    expect_the_method_on_slices(row(), small_model(), shape, 6);
  }
}

TEST_P(TwoLevelTable, WorksWithMoreRanksThanEntries) {
  expect_the_method_on_slices(row(), {{"a", 1}, {"b", 2}}, {2, 4}, 3);
}

TEST_P(TwoLevelTable, OneRankPerHostIsOneLevel) {
  run_ranks(3, [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(3, 1));
    Place place({.threads = 1});
    const auto flat = make_method(row().name, small_options(row()), communicator, place);
    const auto two = make_method(row().name, small_options(row()), levels, place);
    for (const auto& method : {flat.get(), two.get()}) method->register_tensors(small_model());
    for (std::uint32_t step = 0; step < 4; ++step) {
      auto first = gradient_of(small_model(), communicator.rank(), step);
      auto second = first;
      flat->reduce(key_of(communicator, step), first);
      two->reduce(key_of(communicator, step), second);
      ASSERT_EQ(first, second) << "step " << step;
    }
  });
}

TEST_P(TwoLevelTable, NamesRankTensorAndStepOfANonfiniteValueAndForgetsTheStep) {
  run_ranks(6, [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(6, 3));
    Place place({.threads = 1});
    const auto method = make_method(row().name, small_options(row()), levels, place);
    method->register_tensors(small_model());
    auto gradient = gradient_of(small_model(), communicator.rank(), 0);
    method->reduce(key_of(communicator, 0), gradient);
    const auto before = method->save().to_bytes();
    // conv.bias is in the slice of another local rank than the culprit's.
    gradient = gradient_of(small_model(), communicator.rank(), 1);
    if (communicator.rank() == 4) gradient[705] = std::nanf("");
    auto again = gradient;
    const auto text = message_of<InvalidConfig>([&] { method->reduce(key_of(communicator, 7), gradient); });
    EXPECT_TRUE(contains(text, "rank 4 has a NaN or an Inf in the gradient of tensor conv.bias at step 7")) << text;
    EXPECT_EQ(method->save().to_bytes(), before);
    method->set_nonfinite_policy(NonfinitePolicy::skip);
    EXPECT_TRUE(method->reduce(key_of(communicator, 8), again).skipped);
    EXPECT_EQ(again, std::vector<float>(again.size()));
    EXPECT_EQ(method->save().to_bytes(), before);
    EXPECT_EQ(method->skipped_steps(), 1U);
    // A host may drop a step that was finite, because another of its methods was not.
    again = gradient_of(small_model(), communicator.rank(), 2);
    method->begin(key_of(communicator, 9));
    std::vector<TensorPart> parts;
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < small_model().size(); ++i) {
      parts.push_back({i, View<float>(again).sub(offset, small_model()[i].size)});
      offset += small_model()[i].size;
    }
    method->add(parts);
    EXPECT_TRUE(method->settle());
    EXPECT_TRUE(method->abandon().skipped);
    EXPECT_EQ(again, std::vector<float>(again.size()));
    EXPECT_EQ(method->save().to_bytes(), before);
  });
}

/// A lifted method saved before the fourth step and taken up by another.
TEST_P(TwoLevelTable, ResumesBitForBit) {
  run_ranks(4, [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(4, 2));
    Place place({.threads = 1});
    const OptimizerOptions optimizer{.momentum = row().fixes_optimizer() ? 0.0 : 0.9};
    const auto make = [&] {
      auto method = make_model_method(row().name, small_options(row()), optimizer, levels, place);
      method->register_tensors(small_model());
      return method;
    };
    auto straight = make();
    auto resumed = make();
    std::vector<float> model(size_of(small_model()), 0.5F);
    std::vector<float> other = model;
    straight->start(model);
    resumed->start(other);
    for (std::uint32_t step = 0; step < 6; ++step) {
      if (step == 3) {
        const State state = State::from_bytes(resumed->save().to_bytes());
        resumed = make();
        resumed->load(state);
        resumed->start(other);
      }
      const StepInput input{key_of(communicator, step), 0.05F, 0.0F};
      auto gradient = pull_gradient(model, communicator.rank(), step);
      straight->step(input, model, gradient);
      gradient = pull_gradient(other, communicator.rank(), step);
      resumed->step(input, other, gradient);
      ASSERT_EQ(model, other) << "step " << step;
      ASSERT_TRUE(same_everywhere(communicator, model)) << "step " << step;
    }
    EXPECT_EQ(straight->save().to_bytes(), resumed->save().to_bytes());
  });
}

TEST_P(TwoLevelTable, GivesTheSameBitsInRehearsedMemory) {
  rehearse_as(row().name + std::string(" on two levels"));
  check_two_levels({&row(), small_options(row()), row().name}, [](int) { return rehearsed_place(); });
}

TEST_P(TwoLevelTable, AllocatesNothingAfterItsFirstStep) {
  run_ranks(4, [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(4, 2));
    Place place({.threads = 1});
    const auto method = make_method(row().name, small_options(row()), levels, place);
    method->register_tensors(small_model());
    std::vector<std::vector<float>> gradients;
    for (std::uint32_t step = 0; step < 8; ++step) {
      gradients.push_back(gradient_of(small_model(), communicator.rank(), step));
    }
    for (std::uint32_t step = 0; step < 3; ++step) method->reduce(key_of(communicator, step), gradients[step]);
    communicator.barrier().wait();
    const auto before = allocation_count();
    communicator.barrier().wait();
    for (std::uint32_t step = 3; step < 8; ++step) method->reduce(key_of(communicator, step), gradients[step]);
    communicator.barrier().wait();
    EXPECT_EQ(allocation_count(), before);
    communicator.barrier().wait();
  });
}

// A model of several cuts streams: what arrives early is exchanged while the rest is missing.
TEST(TwoLevelStream, SeveralCutsGiveTheSameBits) {
  expect_the_method_on_slices(method_row("topk"), large_model(), {2, 2}, 2);
  run_ranks(4, [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(4, 2));
    Place place({.threads = 1});
    const auto method = make_method("topk", {.keep = 0.01, .scope = "model"}, levels, place);
    method->set_chunk_entries(1000);  // for the inner method; the cuts are fixed
    method->register_tensors(large_model());
    EXPECT_TRUE(method->streams());
    EXPECT_EQ(method->chunk_starts(), (std::vector<std::uint32_t>{0, 3}));
  });
}

// Bytes.

/// Counts what a rank sends to other hosts.
class CountingCommunicator final : public ForwardingCommunicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> owned, std::vector<int> hosts, std::uint64_t& left)
      : ForwardingCommunicator(std::move(owned)), hosts_(std::move(hosts)), left_(left) {}

  Handle start(const Call& call) override {
    for (int to = 0; to < size(); ++to) {
      const auto index = static_cast<std::size_t>(to);
      if (hosts_[index] != hosts_[static_cast<std::size_t>(rank())]) left_ += sent_to(call, index);
    }
    return ForwardingCommunicator::start(call);
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<CountingCommunicator>(ForwardingCommunicator::duplicate(), hosts_, left_);
  }
  std::unique_ptr<Communicator> split(int color) override {
    auto part = ForwardingCommunicator::split(color);
    std::vector<int> hosts(static_cast<std::size_t>(part->size()));
    const int mine = hosts_[static_cast<std::size_t>(rank())];
    part->all_gather(as_bytes(View<const int>(&mine, 1)), as_writable_bytes(View<int>(hosts))).wait();
    return std::make_unique<CountingCommunicator>(std::move(part), std::move(hosts), left_);
  }

 private:
  std::uint64_t sent_to(const Call& call, std::size_t to) const {
    switch (call.kind) {
      case CallKind::all_to_all_varying: return call.send_ranges[to].bytes;
      case CallKind::all_gather_varying: return call.receive_ranges[static_cast<std::size_t>(rank())].bytes;
      case CallKind::all_gather:
      case CallKind::all_to_all: return call.bytes;
      default: ADD_FAILURE() << "not counted: " << describe(call); return 0;
    }
  }

  std::vector<int> hosts_;
  std::uint64_t& left_;
};

struct Bytes {
  std::uint64_t left = 0;      ///< sent to other hosts by all ranks in one step, as the engine saw it
  std::uint64_t reported = 0;  ///< StepReport::traffic
  std::uint64_t within = 0;
};

Bytes bytes_of_a_step(const std::string& name, const MethodOptions& options, Shape shape, bool two) {
  Bytes sum;
  std::mutex mutex;
  run_ranks(shape.ranks(), [&](Communicator& communicator) {
    std::uint64_t left = 0;
    CountingCommunicator all(communicator.duplicate(), hosts_of_size(shape.ranks(), shape.local), left);
    Place place({.threads = 1});
    const std::vector<Tensor> tensors{{"weight", 200'000}};
    std::unique_ptr<TwoLevels> levels;
    if (two) levels = std::make_unique<TwoLevels>(all, hosts_of_size(shape.ranks(), shape.local));
    const auto method = two ? make_method(name, options, *levels, place) : make_method(name, options, all, place);
    method->register_tensors(tensors);
    left = 0;
    auto gradient = gradient_of(tensors, communicator.rank(), 0);
    const StepReport report = method->reduce(key_of(communicator, 0), gradient);
    const std::lock_guard lock(mutex);
    sum.left += left;
    sum.reported += report.traffic.sent_bytes;
    sum.within += report.within.sent_bytes;
  });
  return sum;
}

TEST(TwoLevelBytes, RanksOfAHostShareWhatLeavesIt) {
  const Shape shape{2, 4};
  const auto ratio = [&](const std::string& name, const MethodOptions& options) {
    const Bytes flat = bytes_of_a_step(name, options, shape, false);
    const Bytes two = bytes_of_a_step(name, options, shape, true);
    EXPECT_EQ(flat.within, 0U);
    EXPECT_EQ(two.left, two.reported) << name << ": on two levels all that is reported leaves the host";
    EXPECT_GT(two.within, 0U);
    const double share = static_cast<double>(two.left) / static_cast<double>(flat.left);
    std::cout << name << ": " << flat.left << " bytes leave the hosts on one level, " << two.left << " on two\n";
    return share;
  };
  EXPECT_NEAR(ratio("sgd", {}), 0.25, 0.0001);
  EXPECT_LE(ratio("topk", {.keep = 0.01}), 0.5);
  EXPECT_LE(ratio("topk", {.keep = 0.01, .scope = "model"}), 0.5);
  EXPECT_LE(ratio("randk", {.keep = 0.01}), 0.5);
  EXPECT_LE(ratio("signum", {}), 0.3);
  EXPECT_LE(ratio("qsgd", {.bits = 4}), 0.3);
}

// Inside a host, each rank sends its gradient once and the aggregate once, less its own part.
TEST(TwoLevelBytes, InsideItIsADenseMean) {
  const Bytes two = bytes_of_a_step("topk", {.keep = 0.01}, {2, 4}, true);
  const std::uint64_t headers = 2 * 3 * 32;
  EXPECT_EQ(two.within, 8 * (2 * 3 * 50'000 * sizeof(float) + headers));
}

// Errors.

TEST(TwoLevelErrors, ADeadRankEndsTheStepOnAllRanks) {
  for (const int dead : {0, 5}) {
    std::atomic<int> told{0};
    const auto cause = message_of<Error>([&] {
      run_ranks(8, [&](Communicator& communicator) {
        TwoLevels levels(communicator, hosts_of_size(8, 4));
        Place place({.threads = 1});
        const auto method = make_method("topk", {.keep = 0.1}, levels, place);
        method->register_tensors(small_model());
        auto gradient = gradient_of(small_model(), communicator.rank(), 0);
        method->reduce(key_of(communicator, 0), gradient);
        communicator.barrier().wait();  // a failure ends what others have not ended yet
        if (communicator.rank() == dead) throw Error("its memory is full");
        const auto text = message_of<TransportError>([&] {
          method->reduce(key_of(communicator, 1), gradient);
        });
        EXPECT_TRUE(contains(text, "rank " + std::to_string(dead))) << text;
        ++told;
      });
    });
    EXPECT_EQ(cause, "its memory is full");
    EXPECT_EQ(told, 7);
  }
}

// Rank 2 waits for it inside the host, and the other host for rank 2; whose time ends first tells the others.
TEST(TwoLevelErrors, AMissingRankIsATimeoutOfAllRanks) {
  std::atomic<int> told{0};
  EXPECT_THROW(run_ranks(4,
                         [&](Communicator& communicator) {
                           communicator.set_timeout(Milliseconds(300));
                           TwoLevels levels(communicator, hosts_of_size(4, 2));
                           Place place({.threads = 1});
                           const auto method = make_method("sgd", {}, levels, place);
                           method->register_tensors(small_model());
                           auto gradient = gradient_of(small_model(), communicator.rank(), 0);
                           if (communicator.rank() == 3) {
                             std::this_thread::sleep_for(Milliseconds(1500));
                             return;
                           }
                           const auto text = message_of<TransportError>(
                               [&] { method->reduce(key_of(communicator, 0), gradient); });
                           EXPECT_TRUE(contains(text, "did not end within 300 ms")) << text;
                           EXPECT_TRUE(contains(text, "rank 3 has not") || contains(text, "rank 2 has not")) << text;
                           ++told;
                           throw Error(text);
                         }),
               Error);
  EXPECT_EQ(told, 3);
}

TEST(TwoLevelErrors, RefusesInWords) {
  EXPECT_EQ(message_of<InvalidConfig>([] { hosts_of_size(6, 4); }),
            "ranks per host must divide the number of ranks, 6, got 4: give one of 1, 2, 3, 6");
  run_ranks(3, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto uneven = message_of<InvalidConfig>([&] { TwoLevels(communicator, std::vector<int>{0, 0, 1}); });
    EXPECT_TRUE(contains(uneven, "host 0 has 2 ranks and host 1 has 1")) << uneven;
    const auto few = message_of<InvalidConfig>([&] { TwoLevels(communicator, std::vector<int>{0, 0}); });
    EXPECT_TRUE(contains(few, "2 hosts were given for 3 ranks")) << few;
    const std::vector<int> mine = communicator.rank() == 2 ? std::vector<int>{0, 0, 0} : std::vector<int>{0, 1, 2};
    const auto different = message_of<InvalidConfig>([&] { TwoLevels(communicator, mine); });
    EXPECT_TRUE(contains(different, "host of each rank") && contains(different, "rank 2")) << different;
    CallLog log;
    OneOrder ordered(communicator.duplicate(), log);
    const auto one_order = message_of<InvalidConfig>([&] { TwoLevels(ordered, std::vector<int>{0, 1, 2}); });
    EXPECT_TRUE(contains(one_order, "needs one order for the calls of all groups")) << one_order;
    TwoLevels levels(communicator, std::vector<int>{0, 0, 0});
    const auto gradient = message_of<InvalidConfig>([&] { make_method("def-topk", {}, levels, place); });
    const auto model = message_of<InvalidConfig>([&] { make_model_method("def-topk", {}, {}, levels, place); });
    for (const auto& text : {gradient, model}) {
      EXPECT_TRUE(contains(text, "def-topk is a model method, and two levels are for gradient methods")) << text;
    }
    const auto method = make_method("sgd", {}, levels, place);
    method->register_tensors(small_model());
    const auto resized = message_of<InvalidConfig>([&] { method->resize(&communicator); });
    EXPECT_TRUE(contains(resized, "sgd on two levels keeps its ranks, hosts 0 0 0: it cannot be resized")) << resized;
  });
}

TEST(TwoLevelErrors, AStateFitsTheSameHostsOnly) {
  run_ranks(4, [&](Communicator& communicator) {
    Place place({.threads = 1});
    TwoLevels pairs(communicator, hosts_of_size(4, 2));
    TwoLevels one(communicator, hosts_of_size(4, 4));
    TwoLevels mixed(communicator, std::vector<int>{0, 1, 0, 1});
    const auto registered = [&](std::unique_ptr<GradientMethod> method) {
      method->register_tensors(small_model());
      return method;
    };
    const State state = registered(make_method("topk", {.keep = 0.1}, pairs, place))->save();
    const auto refusal = [&](std::unique_ptr<GradientMethod> made) {
      const auto method = registered(std::move(made));
      return message_of<InvalidConfig>([&] { method->load(state); });
    };
    const auto other = refusal(make_method("topk", {.keep = 0.1}, one, place));
    EXPECT_TRUE(contains(other, "was saved with hosts = 0 0 1 1, this topk has hosts = 0 0 0 0")) << other;
    const auto order = refusal(make_method("topk", {.keep = 0.1}, mixed, place));
    EXPECT_TRUE(contains(order, "was saved with hosts = 0 0 1 1, this topk has hosts = 0 1 0 1")) << order;
    const auto flat = refusal(make_method("topk", {.keep = 0.1}, communicator, place));
    EXPECT_TRUE(contains(flat, "was saved with hosts = 0 0 1 1, this topk has no hosts")) << flat;
  });
}

TEST(TwoLevelHosts, AreFoundByNameOrColour) {
  run_ranks(4, [&](Communicator& communicator) {
    EXPECT_EQ(hosts_by_name(communicator), (std::vector<int>{0, 0, 0, 0}));
    EXPECT_EQ(hosts_by_color(communicator, 7 - communicator.rank() % 2), (std::vector<int>{0, 1, 0, 1}));
  });
}

}  // namespace
}  // namespace laconic::test
