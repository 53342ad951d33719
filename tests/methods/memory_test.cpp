// What the table says of a method's memory, against what it allocates: with every choice of every word, the numbers that
// switch something on, and every optimizer.

#include <gtest/gtest.h>

#include "base/message_memory.h"
#include "laconic/threads.h"
#include "methods/resume_check.h"
#include "support/method_names.h"
#include "support/support.h"

namespace laconic::test {
namespace {

const std::vector<Tensor> kTensors{{"first", 200'000}, {"second", 62'144}};
constexpr double kParameters = 262'144;
constexpr int kRanks = 2;

/// Bytes per parameter and rank that the method holds after some steps, without messages and the place's scratch.
double measured(const MethodRow& row, const MethodOptions& options, const OptimizerOptions& optimizer) {
  double bytes = 0.0;
  run_ranks(kRanks, [&](Communicator& communicator) {
    Place place({.threads = 1});
    std::vector<float> model(static_cast<std::size_t>(kParameters));
    std::vector<float> gradient(model.size());
    const auto used = [&] {
      communicator.barrier().wait();
      const auto now = static_cast<double>(allocated_bytes()) - static_cast<double>(message_memory_bytes());
      communicator.barrier().wait();
      return now;
    };
    double before = 0.0;
    for (const bool counts : {false, true}) {  // the first round fills the place's workspace
      before = used();
      const auto method = make_model_method(row.name, options, optimizer, communicator, place);
      method->register_tensors(kTensors);
      method->set_scoring(
          [](View<const float> point, View<float> out) { std::copy(point.begin(), point.end(), out.begin()); });
      std::fill(model.begin(), model.end(), 0.5F);
      method->start(model);
      for (std::uint32_t step = 0; step < 4; ++step) {
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = 1.0F + static_cast<float>(i % 97);
        method->step({{1, step}, 1e-4F, 1.0F}, model, gradient);
      }
      const double after = used();
      if (counts && communicator.rank() == 0) bytes = (after - before) / (kParameters * kRanks);
    }
  });
  return bytes;
}

/// The optimizer's own.
double optimizer_bytes(const OptimizerOptions& optimizer) {
  if (optimizer.name.starts_with("adam")) return 8.0;
  return optimizer.momentum > 0.0 ? 4.0 : 0.0;
}

class MethodMemory : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Table, MethodMemory, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(MethodMemory, IsAtMostWhatTheTableSays) {
  if (allocated_bytes() == 0) GTEST_SKIP() << "a sanitizer allocates";
  const MethodRow& row = method_row(GetParam());
  const bool rounds = row.has_parameter("period");
  const bool adam = GetParam() == "adam";
  std::vector<WordChoice> choices{{&row, "default settings", {}}};
  for (const WordChoice& choice : every_word_choice()) {
    if (choice.row == &row) choices.push_back(choice);
  }
  if (row.has_parameter("local_steps")) choices.push_back({&row, "local steps", {.local_steps = 2}});
  if (row.has_parameter("outer_momentum")) {
    MethodOptions all{.outer_momentum = 0.9, .period = 2};
    if (row.has_parameter("lambda")) all.lambda = 0.5;
    choices.push_back({&row, "outer momentum", all});
  }
  if (GetParam() == "signsgd" || GetParam() == "signum") choices.push_back({&row, "abstain", {.abstain = 0.5}});
  double most = 0.0;
  for (WordChoice& choice : choices) {
    const auto& values = choice.options.values;
    const bool lists = choice.options.keep.has_value() || values == "sign" || values == "two";
    choice.options.keep.reset();  // few entries are sent: what grows with them hardly shows
    if (sends_all(row) && lists) choice.options.keep = 0.01;
    choice.options.ratio.reset();
    if (rounds && choice.description != "default settings") choice.options.period = 2;
    for (const OptimizerOptions& optimizer :
         std::vector<OptimizerOptions>{{}, {.momentum = 0.9}, {.name = "adamw"}}) {
      if (optimizer.momentum > 0.0 && adam) continue;
      const bool own_momentum = row.traits.is_sgd && optimizer.name == "sgd";  // counted as the method's
      const double own = own_momentum ? 0.0 : adam ? 8.0 : optimizer_bytes(optimizer);
      const double bytes = measured(row, choice.options, optimizer) - own;
      const std::string what = choice.description + ", " + optimizer.name + " " + std::to_string(optimizer.momentum);
      EXPECT_LT(bytes, row.memory_bytes.most + 1.0) << what;
      if (choice.description == "default settings" && (optimizer.momentum > 0.0 || adam)) {
        EXPECT_NEAR(bytes, row.memory_bytes.usual, 1.0) << what;
      }
      most = std::max(most, bytes);
    }
  }
  EXPECT_GT(most, 0.5 * row.memory_bytes.most - 0.1) << "the table says far more than there is";
}

}  // namespace
}  // namespace laconic::test
