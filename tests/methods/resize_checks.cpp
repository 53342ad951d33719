#include "methods/resize_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "laconic/threads.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {

std::vector<ResizedMethod> resized_methods() {
  std::vector<ResizedMethod> all;
  const auto add = [&](const std::string& suffix, const MethodRow& row, const MethodOptions& options,
                       const OptimizerOptions& optimizer) {
    all.push_back({test_name(row.name + suffix), &row, options, optimizer});
  };
  for (const MethodRow& row : method_table()) {
    const bool adam = std::string_view(row.name) == "adam";
    add("", row, small_options(row), {.momentum = adam ? 0.0 : 0.9});
  }
  add("_budget", method_row("dqsgd"), {.bit_budget = 4.0}, {});
  add("_aggregate", method_row("dqsgd"), {.norm_source = "aggregate"}, {});
  add("_memory", method_row("dqsgd"), {.memory = "error"}, {});
  add("_memory", method_row("qsgd"), {.scope = "chunk", .rounding = "nearest", .memory = "error"}, {});
  add("_early", method_row("signum"), {.early_sign = 7}, {});
  add("_turns", method_row("signum"), {.turns = 3}, {});
  add("_guard", method_row("regtopk"), {.keep = 0.1, .step_guard = "on"}, {});
  add("_adam", method_row("topk"), {.keep = 0.1}, {.name = "adam"});
  for (const MethodRow& row : method_table()) {
    if (!sends_all(row)) continue;
    add("_bf16", row, {.values = "bf16", .period = 4}, {.momentum = 0.9});
    add("_signs", row, {.keep = 0.25, .values = "sign", .period = 4}, {.momentum = 0.9});
  }
  add("_adamw", method_row("def"), {.ratio = 8}, {.name = "adamw", .weight_decay = 0.01});
  add("_adamw", method_row("def-topk"), {.keep = 0.1, .period = 3}, {.name = "adamw", .weight_decay = 0.01});
  return all;
}

void run_changing_ranks(int before, int after, const std::function<void(const ChangingRank&)>& body,
                        const std::shared_ptr<Place>& copying) {
  const int most = std::max(before, after);
  const auto old_group = thread_communicators(before, copying);
  const auto next_group = thread_communicators(after, copying);
  const auto member = [&](const std::vector<std::unique_ptr<Communicator>>& group, int rank) -> Communicator* {
    const int own = rank - (most - static_cast<int>(group.size()));
    return own < 0 ? nullptr : group[static_cast<std::size_t>(own)].get();
  };
  const auto run = [&](Communicator& everyone) {
    body({everyone, member(old_group, everyone.rank()), member(next_group, everyone.rank())});
  };
  run_ranks(most, run, copying);
}

namespace {

/// The numbers that a state of this method may have and that are the same on all ranks, as bits.
std::vector<float> counts_of(const State& whole, bool lifted) {
  std::vector<State> states{whole};
  if (lifted) states.insert(states.end(), {whole.nested("inner"), whole.nested("optimizer")});
  std::vector<float> bits;
  for (const State& state : states) {
    for (const char* name :
         {"steps", "rounds", "largest step", "rule's steps", "rule's bits", "rule's exponent", "norms known"}) {
      if (!state.has(name)) continue;
      const double value = state.number(name);
      bits.resize(bits.size() + 2);
      std::memcpy(&bits[bits.size() - 2], &value, sizeof value);
    }
  }
  return bits;
}

/// Whether at least a tenth of the entries are the same on all ranks: what one step of psync averages.
bool shares_a_block(Communicator& communicator, const std::vector<float>& model) {
  const auto all = all_ranks(communicator, model);
  std::size_t same = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const auto is_here = [&](const std::vector<float>& other) { return other[i] == model[i]; };
    same += std::all_of(all.begin(), all.end(), is_here) ? 1 : 0;
  }
  return same >= model.size() / 10;
}

/// The method of one rank, its model, and what is noted of both.
class ResizedWorker {
 public:
  ResizedWorker(const ResizedMethod& resized, Communicator& communicator, Place& place, Trace& trace)
      : resized_(resized),
        place_(place),
        trace_(trace),
        model_(place, std::vector<float>(size_of(small_model()), 0.5F)),
        method_(make_model_method(resized.row->name, resized.options, resized.optimizer, communicator, place)) {
    if (resized.chunk_entries > 0) method_->set_chunk_entries(resized.chunk_entries);
    method_->register_tensors(small_model());
    method_->set_scoring([&place](View<const float> point, View<float> gradient) {
      std::vector<float> here(point.size());
      copy_to_cpu(place, point, here.data());
      const auto made = pull_gradient(here, 1000, 0);
      copy_from_cpu(place, made.data(), gradient);
    });
  }

  ModelMethod& method() { return *method_; }
  std::vector<float> model() const { return model_.get(); }
  void take_model(const std::vector<float>& model) { model_.set(model); }

  void start() {
    method_->start(model_.view());
    note();
  }
  StepReport step(Communicator& communicator, std::uint32_t number) {
    const PlacedValues gradient(place_, pull_gradient(model(), communicator.rank(), number));
    const StepReport report =
        method_->step({key_of(communicator, number), 0.05F, 0.0F}, model_.view(), gradient.view());
    trace_.note(report.extra);
    note();
    return report;
  }
  /// Whether all ranks of the group count alike. Collective.
  void check_counts(Communicator& group) const {
    ASSERT_TRUE(same_everywhere(group, counts_of(method_->save(), is_lifted())));
  }
  /// The same, and whether they have the same bits where the method shares them. Collective.
  void check_shared(Communicator& group, const StepReport& report) const {
    check_counts(group);
    const State state = method_->save();
    if (is_lifted()) {
      ASSERT_TRUE(same_everywhere(group, model()));
    } else if (state.size("point") > 0) {
      ASSERT_TRUE(same_everywhere(group, saved(*method_, "point")));
    } else if (state.size("centre") == 0) {
      ASSERT_TRUE(shares_a_block(group, model()));
    } else if (report.rounds > 0) {
      ASSERT_TRUE(same_everywhere(group, saved(*method_, "centre")));
    }
  }

 private:
  bool is_lifted() const { return resized_.row->face == Face::gradient; }
  void note() {
    trace_.note(model());
    trace_.note(method_->residual_norm());
    trace_.note(method_->save().to_bytes());
  }

  const ResizedMethod& resized_;
  Place& place_;
  Trace& trace_;
  PlacedValues model_;
  std::unique_ptr<ModelMethod> method_;
};

}  // namespace

void check_resize(const ResizedMethod& resized, const ChangingRank& rank, Place& place, Trace& trace) {
  const bool newcomer = rank.before == nullptr;
  const auto alone = thread_communicators(1);
  Communicator& first = newcomer ? *alone[0] : *rank.before;
  ResizedWorker worker(resized, first, place, trace);
  if (!newcomer) {
    worker.start();
    for (std::uint32_t number = 0; number < 5; ++number) worker.step(first, number);
  }
  auto told = worker.model();
  rank.everyone.broadcast(as_writable_bytes(View<float>(told)), rank.everyone.size() - 1).wait();
  if (newcomer) worker.take_model(told);
  worker.method().resize(rank.after);
  if (rank.after == nullptr) return;
  worker.start();
  worker.check_counts(*rank.after);
  std::uint32_t rounds = 0;
  for (std::uint32_t number = 5; number < 8; ++number) {
    SCOPED_TRACE(number);
    const StepReport report = worker.step(*rank.after, number);
    rounds += report.rounds;
    worker.check_shared(*rank.after, report);
  }
  // A period of 4: the last of the three is a round.
  if (worker.method().save().size("centre") > 0) {
    EXPECT_EQ(rounds, 1U);
  }
}

}  // namespace laconic::test
