// Optimizers around a loop's own against the methods alone, in threads: the same bits.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/optimizer.h"
#include "support/rehearsal.h"
#include "support/support.h"
#include "torch/plugin/model_host.h"
#include "torch/plugin/redeal.h"
#include "torch/plugin/reducing_host.h"

namespace laconic::test {
namespace {

using namespace plugin;

constexpr float kRate = 0.05F;
constexpr std::uint64_t kSeed = 42;

std::unique_ptr<Communicator> own(Communicator& communicator) { return communicator.duplicate(); }

Workplace on_cpu() { return {.place = std::make_unique<Place>(CpuOptions{.threads = 1}), .stream = {}, .reason = {}}; }

/// In memory that only kernels and codecs may touch, as on a device.
Workplace rehearsed() { return {.place = rehearsed_place(), .stream = {}, .reason = {}}; }

/// Parameters as a loop has them: tensors here and there, all 0.5.
struct Loop {
  explicit Loop(at::ScalarType type = at::kFloat) {
    for (const laconic::Tensor& tensor : small_model()) {
      names.push_back(tensor.name);
      parameters.push_back(at::full({static_cast<std::int64_t>(tensor.size)}, 0.5, type).requires_grad_(true));
      optimizers.emplace_back(OptimizerOptions{.momentum = 0.9, .weight_decay = 0.01});
      optimizers.back().prepare(place, tensor.size);
    }
  }

  ParameterSet set() const { return {names, parameters}; }

  std::vector<float> flat() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& each : parameters) all.push_back(each.detach().to(at::kFloat));
    const at::Tensor joined = at::cat(all);
    return {joined.data_ptr<float>(), joined.data_ptr<float>() + joined.numel()};
  }

  std::vector<float> flat_gradient() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& each : parameters) all.push_back(each.grad());
    const at::Tensor joined = at::cat(all);
    return {joined.data_ptr<float>(), joined.data_ptr<float>() + joined.numel()};
  }

  void set_gradient(const std::vector<float>& values) {
    std::int64_t offset = 0;
    for (at::Tensor& each : parameters) {
      at::Tensor gradient = at::empty({each.numel()});
      std::memcpy(gradient.data_ptr<float>(), values.data() + offset, static_cast<std::size_t>(each.numel()) * 4);
      each.mutable_grad() = gradient.to(each.scalar_type());
      offset += each.numel();
    }
  }

  /// SGD with momentum, tensor by tensor.
  void step() {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto size = static_cast<std::size_t>(parameters[i].numel());
      optimizers[i].step(place, kRate, {parameters[i].grad().data_ptr<float>(), size},
                         {parameters[i].data_ptr<float>(), size});
    }
  }

  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  std::vector<laconic::Optimizer> optimizers;
  Place place{{.threads = 1}};
};

std::unique_ptr<ModelHost> host_of(Loop& loop, const MethodRow& row, Communicator& communicator,
                                   Workplace work = on_cpu()) {
  HostCalls calls;
  if (!row.traits.is_sgd) calls.optimizer = [&loop] { loop.step(); };
  if (row.traits.takes_scoring) {
    calls.scoring = [&loop](std::uint32_t) { loop.set_gradient(pull_gradient(loop.flat(), 1000, 0)); };
  }
  return std::make_unique<ModelHost>(own(communicator), std::move(work), kSeed, loop.set(), row.name,
                                     small_options(row), calls);
}

const std::vector<Coefficients>& coefficients() {
  static const std::vector<Coefficients> group{{kRate, 0.9F, 0.01F}};
  return group;
}

void expect_the_methods_bits(const MethodRow& row, Communicator& communicator, Workplace work) {
  Worker worker(row, small_options(row), communicator, {.momentum = 0.9, .weight_decay = 0.01});
  Loop loop;
  const auto host = host_of(loop, row, communicator, std::move(work));
  for (std::uint32_t step = 0; step < 10; ++step) {
    worker.step(step);
    const auto gradient = pull_gradient(loop.flat(), communicator.rank(), step);
    loop.set_gradient(gradient);
    EXPECT_TRUE(host->step({.loss = 0.0F, .groups = coefficients()}));
    ASSERT_EQ(loop.flat(), worker.model) << row.name << " step " << step;
    ASSERT_EQ(loop.flat_gradient(), gradient) << row.name << ": the gradient is still the loop's";
  }
  const auto before = loop.flat();
  const auto out = worker.read_out();
  host->enter_read_out();
  EXPECT_EQ(loop.flat(), out) << row.name;
  host->leave_read_out();
  EXPECT_EQ(loop.flat(), before) << row.name;
}

TEST(ModelHost, GivesTheMethodsBits) {
  for (const MethodRow& row : method_table()) {
    if (row.face != Face::model) continue;
    run_ranks(3, [&](Communicator& communicator) { expect_the_methods_bits(row, communicator, on_cpu()); });
  }
}

TEST(ModelHost, GivesTheMethodsBitsInMemoryThatItMayNotTouch) {
  for (const MethodRow& row : method_table()) {
    if (row.face != Face::model) continue;
    rehearse_as(row.name);
    run_ranks(2, [&](Communicator& communicator) { expect_the_methods_bits(row, communicator, rehearsed()); });
  }
}

TEST(ModelHost, RefusesCallsThatDoNotFitTheMethod) {
  run_ranks(1, [&](Communicator& communicator) {
    const auto refusal = [&](const char* name, const HostCalls& calls) {
      return message_of<InvalidConfig>([&] {
        Loop loop;
        ModelHost(own(communicator), on_cpu(), kSeed, loop.set(), name, small_options(method_row(name)), calls);
      });
    };
    const auto step = [] {};
    const auto score = [](std::uint32_t) {};
    EXPECT_PRED2(contains, refusal("psync", {}), "psync needs a call of the loop's optimizer, got none");
    EXPECT_PRED2(contains, refusal("psync", {.optimizer = step, .scoring = score}), "takes no scoring function");
  });
}

TEST(ModelHost, ResumesToTheBit) {
  for (const MethodRow& row : method_table()) {
    if (row.face != Face::model) continue;
    std::vector<State> states(2);
    rehearse_as(row.name);
    run_ranks(2, [&](Communicator& communicator) {
      const auto steps = [&](Loop& loop, ModelHost& host, std::uint32_t from, std::uint32_t to) {
        for (std::uint32_t step = from; step < to; ++step) {
          loop.set_gradient(pull_gradient(loop.flat(), communicator.rank(), step));
          host.step({.loss = static_cast<float>(communicator.rank()), .groups = coefficients()});
        }
      };
      Loop loop;
      const auto host = host_of(loop, row, communicator);
      steps(loop, *host, 0, 6);
      const State saved = host->save();
      Loop other;
      const auto resumed = host_of(other, row, communicator, rehearsed());
      for (std::size_t i = 0; i < loop.optimizers.size(); ++i) {
        other.optimizers[i].copy_from(other.place, loop.optimizers[i]);
      }
      resumed->load(saved);
      steps(loop, *host, 6, 12);
      steps(other, *resumed, 6, 12);
      EXPECT_EQ(loop.flat(), other.flat()) << row.name;
      states[static_cast<std::size_t>(communicator.rank())] = saved;
      communicator.barrier().wait();
      const auto refused =
          message_of<InvalidConfig>([&] { resumed->load(states[static_cast<std::size_t>(1 - communicator.rank())]); });
      EXPECT_TRUE(contains(refused, "each rank loads its own")) << refused;
      host->redeal(states);
      resumed->redeal(states);
      EXPECT_EQ(loop.flat(), other.flat()) << row.name;
    });
  }
}

/// A device has larger chunks than the memory of this process, in which a state is dealt.
TEST(Redeal, TakesAndGivesStatesOfOtherChunks) {
  const MethodOptions options{.keep = 0.1, .scope = "tensor"};
  std::vector<State> states(3);
  run_ranks(3, [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method("topk", options, communicator, place);
    method->set_chunk_entries(5);
    method->register_tensors(small_model());
    std::vector<float> gradient = integer_gradient(size_of(small_model()), communicator.rank(), 0);
    method->reduce(key_of(communicator, 0), gradient);
    states[static_cast<std::size_t>(communicator.rank())] = method->save();
  });
  const MethodMaker make = [&](Communicator& communicator, Place& place) {
    return make_method("topk", options, communicator, place);
  };
  run_ranks(2, [&](Communicator& communicator) {
    const State mine = redealt(states, communicator.rank(), 2, small_model(), make);
    Place place({.threads = 1});
    const auto method = make_method("topk", options, communicator, place);
    method->set_chunk_entries(5);
    method->register_tensors(small_model());
    method->load(mine);
    EXPECT_GT(method->residual_norm(), 0.0);
  });
}

TEST(ModelHost, RefusesParametersThatOthersChanged) {
  run_ranks(1, [](Communicator& communicator) {
    Loop loop;
    const auto host = host_of(loop, method_row("def"), communicator);
    loop.set_gradient(loop.flat());
    host->step({.groups = coefficients()});
    {
      const c10::NoGradGuard no_graph;
      loop.parameters[2].add_(1.0);
    }
    const auto text = message_of<InvalidConfig>([&] { host->step({.groups = coefficients()}); });
    EXPECT_TRUE(contains(text, "fc.weight")) << text;
  });
}

TEST(ModelHost, TakesParametersOf16Bits) {
  for (const char* name : {"def", "mgrawa", "psync"}) {
    run_ranks(2, [&](Communicator& communicator) {
      Loop loop(at::kBFloat16);
      HostCalls calls;
      const MethodRow& row = method_row(name);
      if (!row.traits.is_sgd) {
        calls.optimizer = [&loop] {
          const c10::NoGradGuard no_graph;
          for (at::Tensor& each : loop.parameters) each.sub_(each.grad(), kRate);
        };
      }
      if (row.traits.takes_scoring) calls.scoring = [&loop](std::uint32_t) { loop.set_gradient(loop.flat()); };
      ModelHost host(own(communicator), on_cpu(), kSeed, loop.set(), name, small_options(row), calls);
      for (std::uint32_t step = 0; step < 30; ++step) {
        loop.set_gradient(pull_gradient(loop.flat(), 1, step));  // the same target for both
        host.step({.groups = coefficients()});
      }
      const auto before = loop.flat();
      host.enter_read_out();
      EXPECT_TRUE(same_everywhere(communicator, loop.flat())) << name;
      host.leave_read_out();
      EXPECT_EQ(loop.flat(), before) << name;
    });
  }
}

TEST(ReducingHost, GivesTheAggregateOfEveryMethod) {
  for (const MethodRow& row : method_table()) {
    if (row.face != Face::gradient || std::string(row.name) == "adam") continue;
    rehearse_as(row.name);
    run_ranks(3, [&](Communicator& communicator) {
      const auto options = small_options(row);
      Place place({.threads = 1});
      const auto method = make_method(row.name, options, communicator, place);
      method->register_tensors(small_model());
      Loop loop;
      ReducingHost host(own(communicator), communicator.rank() == 1 ? rehearsed() : on_cpu(), loop.set(),
                        {{row.name, options, {0, 1, 2, 3}}}, {.seed = kSeed});
      for (std::uint32_t step = 0; step < 5; ++step) {
        auto gradient = pull_gradient(loop.flat(), communicator.rank(), step);
        loop.set_gradient(gradient);
        method->reduce({kSeed, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
        EXPECT_TRUE(host.step({}));
        ASSERT_EQ(loop.flat_gradient(), gradient) << row.name << " step " << step;
        loop.step();
      }
      EXPECT_GT(host.metrics().total.traffic.sent_bytes, 0U);
    });
  }
}

TEST(ReducingHost, UnscalesCountsMissingAsZeroAndSkips) {
  run_ranks(2, [](Communicator& communicator) {
    Loop loop(at::kHalf);
    ReducingHost host(own(communicator), on_cpu(), loop.set(), {{"sgd", {}, {0, 1, 2, 3}}}, {.seed = kSeed});
    for (at::Tensor& each : loop.parameters) each.mutable_grad() = at::full_like(each, 8.0);
    if (communicator.rank() == 1) loop.parameters[3].mutable_grad() = at::Tensor();
    EXPECT_TRUE(host.step({.factor = 0.25F}));
    EXPECT_EQ(loop.parameters[0].grad()[5].item<float>(), 2.0F);
    EXPECT_EQ(loop.parameters[3].grad()[0].item<float>(), 1.0F);
    EXPECT_EQ(loop.parameters[3].grad().scalar_type(), at::kHalf);
    if (communicator.rank() == 0) loop.parameters[1].mutable_grad().fill_(std::numeric_limits<float>::infinity());
    EXPECT_FALSE(host.step({.skips = true}));
    EXPECT_EQ(host.metrics().skipped, 1U);
  });
}

TEST(OptimizerHost, TellsALoneReader) {
  auto ranks = thread_communicators(2);
  for (auto& each : ranks) each->set_timeout(Milliseconds(300));
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Loop loop;
      auto communicator = ranks[static_cast<std::size_t>(rank)]->duplicate();
      communicator->set_timeout(Milliseconds(300));
      ReducingHost host(std::move(communicator), on_cpu(), loop.set(), {{"sgd", {}, {0, 1, 2, 3}}}, {.seed = kSeed});
      if (rank == 1) return;
      try {
        host.enter_read_out();
      } catch (const TransportError&) {
        ++refused;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, 1);
}

TEST(OptimizerHost, SharesStartAndStatistics) {
  run_ranks(3, [](Communicator& communicator) {
    const auto rank = static_cast<double>(communicator.rank());
    Loop loop;
    ReducingHost host(own(communicator), on_cpu(), loop.set(), {{"sgd", {}, {0, 1, 2, 3}}}, {.seed = kSeed});
    const std::vector<at::Tensor> mixed{at::full({3}, rank + 1.0), at::full({}, communicator.rank() + 5, at::kLong),
                                        at::full({2, 2}, rank, at::kHalf)};
    host.broadcast(mixed);
    EXPECT_EQ(mixed[0][2].item<float>(), 1.0F);
    EXPECT_EQ(mixed[1].item<std::int64_t>(), 5);
    EXPECT_EQ(mixed[2][1][1].item<float>(), 0.0F);
    const std::vector<at::Tensor> statistics{at::full({3}, rank), at::full({2, 2}, 2.0 * rank)};
    host.average(statistics);
    EXPECT_EQ(statistics[0][1].item<float>(), 1.0F);
    EXPECT_EQ(statistics[1][0][1].item<float>(), 2.0F);
  });
}

TEST(ParameterSet, SaysWhatItCannotTake) {
  const auto refused = [](std::vector<at::Tensor> parameters) {
    return message_of<InvalidConfig>([&] { ParameterSet(std::vector<std::string>{"a", "b"}, std::move(parameters)); });
  };
  EXPECT_TRUE(contains(refused({at::zeros({2}), at::zeros({2}, at::kDouble)}), "parameter b has type Double"));
  EXPECT_TRUE(contains(refused({at::zeros({2}), at::zeros({2}, at::kMeta)}), "parameter b lies on meta"));
  EXPECT_TRUE(contains(refused({}), "no parameters"));
  ParameterSet set({"a"}, {at::zeros({2, 2}).requires_grad_(true)});
  Place place({.threads = 1});
  std::vector<float> flat(4);
  auto parameter = set.parameters()[0];
  parameter.mutable_grad() = at::ones({2, 2}).to_sparse();
  const auto text = message_of<InvalidConfig>([&] { set.read_gradients(place, 1.0F, {}, flat); });
  EXPECT_TRUE(contains(text, "sparse=False")) << text;
}

}  // namespace
}  // namespace laconic::test
