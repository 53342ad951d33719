// Properties that every method has, looped over the table: a new row is tested by being there.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/resume_check.h"
#include "support/method_names.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::string row_name(const testing::TestParamInfo<std::tuple<std::string, int>>& test) {
  return test_name(std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)));
}

class EveryMethod : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const MethodRow& row() const { return method_row(std::get<0>(GetParam())); }
  int ranks() const { return std::get<1>(GetParam()); }
  bool is_gradient() const { return row().face == Face::gradient; }
};

INSTANTIATE_TEST_SUITE_P(Table, EveryMethod,
                         testing::Combine(testing::ValuesIn(method_names()), testing::Values(1, 2, 3, 4, 7)), row_name);

TEST_P(EveryMethod, SharesTheSameBits) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    for (std::uint32_t step = 0; step < 12; ++step) {
      const StepReport report = worker.step(step);
      if (is_gradient()) {
        ASSERT_TRUE(same_everywhere(communicator, worker.model)) << "step " << step;
        continue;
      }
      ASSERT_TRUE(same_everywhere(communicator, worker.read_out())) << "step " << step;
      // read_out may be a mean, which is the same whatever it is a mean of: look at what each rank keeps.
      const State state = worker.method->save();
      for (const char* name : {"centre", "point"}) {
        if (state.size(name) == 0 || (report.rounds == 0 && std::string_view(name) == "centre")) continue;
        std::vector<float> kept(state.size(name));
        state.get(name, kept);
        ASSERT_TRUE(same_everywhere(communicator, kept)) << name << " in step " << step;
      }
    }
    for (const float value : worker.model) ASSERT_TRUE(std::isfinite(value));
  });
}

TEST_P(EveryMethod, ResumesBitForBit) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    for (const std::uint32_t cut : {1U, 4U, 6U}) check_resume(communicator, row(), small_options(row()), cut);
  });
}

TEST_P(EveryMethod, DoesNotDependOnThePartition) {
  if (!is_gradient()) GTEST_SKIP() << "a model method has no parts";
  run_ranks(ranks(), [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto tensors = small_model();
    const auto whole = make_method(row().name, small_options(row()), communicator, place);
    const auto parts = make_method(row().name, small_options(row()), communicator, place);
    parts->set_chunk_entries(1);  // a chunk each, where the method allows it; the other is one chunk
    whole->register_tensors(tensors);
    parts->register_tensors(tensors);
    for (std::uint32_t step = 0; step < 4; ++step) {
      const StepKey key{5, step, static_cast<std::uint32_t>(communicator.rank())};
      auto flat = normal_values(size_of(tensors), step * 100 + static_cast<std::uint64_t>(communicator.rank()));
      std::vector<std::vector<float>> separate;
      std::size_t offset = 0;
      for (const Tensor& tensor : tensors) {
        separate.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(offset),
                            flat.begin() + static_cast<std::ptrdiff_t>(offset + tensor.size));
        offset += tensor.size;
      }
      whole->reduce(key, flat);
      parts->begin(key);
      // Another partition and order each step, as buckets that are rebuilt give.
      const auto part = [&](std::uint32_t tensor) { return TensorPart{tensor, View<float>(separate[tensor])}; };
      if (step % 2 == 0) {
        const std::vector<TensorPart> first{part(3), part(1)};
        const std::vector<TensorPart> second{part(0), part(2)};
        parts->add(first);
        parts->add(second);
      } else {
        for (const std::uint32_t tensor : {2U, 3U, 0U, 1U}) {
          const TensorPart one = part(tensor);
          parts->add({&one, 1});
        }
      }
      parts->finish();
      std::vector<float> joined;
      for (const auto& each : separate) joined.insert(joined.end(), each.begin(), each.end());
      ASSERT_EQ(std::memcmp(joined.data(), flat.data(), flat.size() * sizeof(float)), 0) << "step " << step;
    }
  });
}

TEST_P(EveryMethod, SkipsAStepEverywhereAndForgetsIt) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    Worker worker(row(), small_options(row()), communicator);
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    for (std::uint32_t step = 0; step < 2; ++step) worker.step(step);
    const auto before = worker.method->save().to_bytes();
    const auto model = worker.model;
    auto gradient = pull_gradient(worker.model, communicator.rank(), 2);
    const bool culprit = communicator.rank() == communicator.size() - 1;
    if (culprit) gradient[705] = std::numeric_limits<float>::infinity();
    const StepKey key{42, 2, static_cast<std::uint32_t>(communicator.rank())};
    const StepReport report = worker.method->step({key, 0.05F, 0.0F}, worker.model, gradient);
    // In a local step of a round method only the worker concerned drops it.
    const bool local = !is_gradient() && !report.skipped && !culprit;
    if (local) return;
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(worker.method->skipped_steps(), 1U);
    EXPECT_TRUE(worker.model == model);
    if (is_gradient()) {
      EXPECT_EQ(worker.method->save().to_bytes(), before);
    }
  });
}

TEST_P(EveryMethod, NamesRankTensorAndStepOfANonfiniteValue) {
  if (!is_gradient()) GTEST_SKIP() << "tested by the model methods' own tests";
  run_ranks(ranks(), [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(row().name, small_options(row()), communicator, place);
    method->register_tensors(small_model());
    auto gradient = integer_gradient(size_of(small_model()), communicator.rank(), 0);
    const int culprit = communicator.size() - 1;
    if (communicator.rank() == culprit) gradient[705] = std::nanf("");
    const auto text = message_of<InvalidConfig>([&] {
      method->reduce({1, 7, static_cast<std::uint32_t>(communicator.rank())}, gradient);
    });
    EXPECT_TRUE(contains(text, "rank " + std::to_string(culprit))) << text;
    EXPECT_TRUE(contains(text, "conv.bias") && contains(text, "step 7")) << text;
  });
}

TEST_P(EveryMethod, ConservesWhatIsOwed) {
  if (!is_gradient()) GTEST_SKIP() << "tested by the model methods' own tests";
  run_ranks(ranks(), [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_method(row().name, small_options(row()), communicator, place);
    method->register_tensors(small_model());
    const auto n = size_of(small_model());
    if (!method->save().has("residual")) return;
    // Levels of a quantizer are no integers: what is sent and the rest are rounded. With two bits they are integers
    // (quantized_test.cpp).
    const bool exact = !row().has_parameter("memory");
    std::vector<float> residual(n, 0.0F);
    for (std::uint32_t step = 0; step < 6; ++step) {
      auto gradient = integer_gradient(n, communicator.rank(), step);
      const auto came = sum_everywhere(communicator, gradient);
      const auto owed = sum_everywhere(communicator, residual);
      method->reduce({1, step, static_cast<std::uint32_t>(communicator.rank())}, gradient);
      method->save().get("residual", residual);
      const auto still_owed = sum_everywhere(communicator, residual);
      for (std::size_t i = 0; i < n; ++i) {
        // The mean is divided by W once, which rounds: the sums are integers below 2^24.
        const double sent = static_cast<double>(gradient[i]) * communicator.size();
        if (exact) {
          ASSERT_EQ(std::round(sent) + still_owed[i], came[i] + owed[i]) << "step " << step << " entry " << i;
        } else {
          ASSERT_NEAR(sent + still_owed[i], came[i] + owed[i], 1e-4) << "step " << step << " entry " << i;
        }
      }
    }
  });
}

// A host that names no rank, or a wrong one, must not make all ranks round alike.
TEST_P(EveryMethod, KnowsItsRankWhateverTheHostSays) {
  run_ranks(ranks(), [&](Communicator& communicator) {
    Worker right(row(), small_options(row()), communicator);
    Worker wrong(row(), small_options(row()), communicator);
    for (std::uint32_t step = 0; step < 6; ++step) {
      right.step(step);
      auto gradient = pull_gradient(wrong.model, communicator.rank(), step);
      wrong.method->step({{42, step}, 0.05F, 0.0F}, wrong.model, gradient);
      ASSERT_TRUE(right.model == wrong.model) << "step " << step;
    }
    if (!is_gradient()) return;
    const auto method = make_method(row().name, small_options(row()), communicator, right.place);
    const auto other = make_method(row().name, small_options(row()), communicator, right.place);
    auto named = normal_values(500, 3);
    auto unnamed = named;
    method->reduce({42, 0, static_cast<std::uint32_t>(communicator.rank())}, named);
    other->reduce({42, 0, 5}, unnamed);
    EXPECT_TRUE(named == unnamed);
  });
}

TEST_P(EveryMethod, RanksWithOtherSettingsAreToldWhere) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  run_ranks(ranks(), [&](Communicator& communicator) {
    Place place({.threads = 1});
    const bool odd_one = communicator.rank() == communicator.size() - 1;
    const auto text = message_of<InvalidConfig>([&] {
      make_model_method(odd_one ? (std::string(row().name) == "sgd" ? "fp16" : "sgd") : row().name, {}, {},
                        communicator, place);
    });
    EXPECT_TRUE(contains(text, "rank " + std::to_string(communicator.size() - 1))) << text;
    EXPECT_TRUE(contains(text, "method")) << text;
  });
}

TEST_P(EveryMethod, RefusesAStartThatDiffersBetweenRanks) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  run_ranks(ranks(), [&](Communicator& communicator) {
    Place place({.threads = 1});
    const auto method = make_model_method(row().name, small_options(row()), {}, communicator, place);
    const int last = communicator.size() - 1;
    std::vector<float> model(100, communicator.rank() == last ? 0.25F : 0.5F);
    const auto text = message_of<InvalidConfig>([&] { method->start(model); });
    EXPECT_TRUE(contains(text, "rank " + std::to_string(last)) && contains(text, "start point")) << text;
  });
}

TEST(Table, ResumesBitForBitWithEveryChoiceOfEveryWord) {
  for (const WordChoice& choice : every_word_choice()) {
    SCOPED_TRACE(choice.description);
    // At a round, and in the middle of a period.
    for (const std::uint32_t cut : {4U, 6U}) {
      run_ranks(3, [&](Communicator& communicator) { check_resume(communicator, *choice.row, choice.options, cut); });
    }
  }
}

TEST(Table, FullSelectionOnOneWorkerIsPlainSgdBitForBit) {
  for (const MethodRow& row : method_table()) {
    MethodOptions options;
    bool full = false;
    for (const Parameter& parameter : row.parameters) {
      if (parameter.number == &MethodOptions::keep) options.keep = 1.0, full = true;
      if (parameter.number == &MethodOptions::ratio) options.ratio = 1.0, full = true;
    }
    if (!full || sends_all(row)) continue;
    if (row.traits.sends_updates && !row.traits.is_sgd) continue;  // s − y is rounded (updates_test.cpp)
    run_ranks(1, [&](Communicator& communicator) {
      Worker plain(method_row("sgd"), {}, communicator);
      Worker worker(row, options, communicator);
      for (std::uint32_t step = 0; step < 10; ++step) {
        plain.step(step);
        worker.step(step);
        ASSERT_EQ(std::memcmp(plain.model.data(), worker.model.data(), plain.model.size() * sizeof(float)), 0)
            << row.name << " step " << step;
      }
    });
  }
}

// So has a gradient of -0: plus nothing owed it is -0 still, in every method that sends what it owes.
TEST(Table, FullSelectionOnOneWorkerKeepsMinusZero) {
  for (const char* name : {"topk", "regtopk", "randk"}) {
    run_ranks(1, [&](Communicator& communicator) {
      Place place({.threads = 1});
      const auto method = make_method(name, {.keep = 1.0}, communicator, place);
      for (std::uint32_t step = 0; step < 3; ++step) {
        auto gradient = normal_values(1'000, step);
        for (std::size_t i = step; i < gradient.size(); i += 3) gradient[i] = -0.0F;
        auto aggregate = gradient;
        method->reduce({1, step}, aggregate);
        ASSERT_EQ(std::memcmp(aggregate.data(), gradient.data(), gradient.size() * sizeof(float)), 0)
            << name << " step " << step;
      }
    });
  }
}

TEST(Table, AMomentumIsNotOwed) {
  run_ranks(2, [](Communicator& communicator) {
    for (const char* name : {"signum", "psync", "easgd"}) {
      Worker worker(method_row(name), small_options(method_row(name)), communicator, {.momentum = 0.9});
      worker.step(0);
      EXPECT_EQ(worker.method->residual_norm(), 0.0) << name;
    }
  });
}

TEST(Table, NamesAndParametersAreUnique) {
  for (const MethodRow& row : method_table()) {
    EXPECT_EQ(std::count_if(method_table().begin(), method_table().end(),
                            [&](const MethodRow& other) { return std::string_view(other.name) == row.name; }),
              1);
    EXPECT_TRUE((row.face == Face::gradient) == (row.make_gradient != nullptr)) << row.name;
    EXPECT_TRUE((row.face == Face::model) == (row.make_model != nullptr)) << row.name;
    // Every default is in its own range.
    Settings(row.name, row.parameters, {});
  }
}

TEST(Table, RangesAreWrittenAsPeopleWriteThem) {
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      EXPECT_FALSE(contains(parameter.range(), "+")) << row.name << " " << parameter.name << " " << parameter.range();
      if (parameter.number == &MethodOptions::period) {
        EXPECT_EQ(parameter.range(), "1..1000000000");
      }
      if (parameter.number == &MethodOptions::keep) {
        EXPECT_EQ(parameter.range(), "(0, 1]");
      }
      if (parameter.number == &MethodOptions::ratio) {
        EXPECT_EQ(parameter.range(), "[1, 1000000000]");
      }
      if (parameter.number == &MethodOptions::kappa) {
        EXPECT_EQ(parameter.range(), "(0, 1e30]");
      }
      if (parameter.number == &MethodOptions::beta) {
        EXPECT_EQ(parameter.range(), "[0, 0.999999]");
      }
      if (parameter.number == &MethodOptions::momentum || parameter.number == &MethodOptions::weight_decay) {
        EXPECT_EQ(parameter.range(), "[0, 1)");
      }
    }
  }
}

TEST(Table, AnOptionThatWouldChangeNothingIsRefused) {
  const std::vector<std::tuple<const char*, MethodOptions, const char*>> cases{
      {"dqsgd", {.total_steps = 600}, "total_steps counts only with rule = convex or bit_budget, got 600"},
      {"dqsgd", {.tau = 6, .total_steps = 600}, "total_steps counts only with rule = convex or bit_budget"},
      {"dqsgd", {.error_budget = 1, .smoothness = 1, .step_size = 0.1, .total_steps = 9}, "total_steps counts only"},
      {"dqsgd", {.tau = 6, .smoothness = 2}, "smoothness counts only with rule = convex or error_budget, got 2"},
      {"dqsgd", {.bit_budget = 4, .step_size = 0.1}, "step_size counts only with rule = convex or error_budget"},
      {"dqsgd", {.error_budget = 1, .smoothness = 1, .convexity = 1, .step_size = 0.1}, "convexity counts only with"},
      {"dqsgd", {.norm_source = "exact", .window = 50}, "window counts only with norm_source = workers or aggregate"},
      {"qsgd", {.chunk = 256}, "chunk counts only with scope = chunk, got 256"},
      {"block-quant", {.scope = "tensor", .chunk = 256}, "chunk counts only with scope = chunk, got 256"},
      {"signum", {.beta = 0, .early_sign = 54}, "early_sign counts only with beta above 0, got 54"}};
  run_ranks(1, [&](Communicator& communicator) {
    Place place({.threads = 1});
    for (const auto& [name, options, expected] : cases) {
      const auto make = [&, &name = name, &options = options] { make_method(name, options, communicator, place); };
      const auto text = message_of<InvalidConfig>(make);
      EXPECT_TRUE(contains(text, expected)) << text;
    }
    // Where they do count.
    make_method("dqsgd", {.bit_budget = 4, .norm_source = "exact", .window = 9, .total_steps = 600}, communicator,
                place);
    make_method("signum", {.early_sign = 54}, communicator, place);
    make_method("qsgd", {.scope = "chunk", .chunk = 64}, communicator, place);
    make_method("block-quant", {.chunk = 65536}, communicator, place);
  });
}

// What a run records of its settings must be taken back when it is resumed.
TEST(Table, SettingsAsTextAreSettingsAgain) {
  for (const WordChoice& choice : every_word_choice()) {
    const Settings settings(choice.row->name, choice.row->parameters, choice.options);
    MethodOptions again;
    for (const auto& [name, value] : settings.texts()) set_option(again, choice.row->name, name, value);
    EXPECT_EQ(Settings(choice.row->name, choice.row->parameters, again).texts(), settings.texts())
        << choice.description;
  }
}

TEST(Table, RefusalsNameValueRangeAndRemedy) {
  run_ranks(1, [](Communicator& communicator) {
    Place place({.threads = 1});
    const auto of = [&](const char* name, const MethodOptions& options) {
      return message_of<InvalidConfig>([&] { make_method(name, options, communicator, place); });
    };
    EXPECT_TRUE(contains(of("topk", {.keep = 1.5}), "topk: keep must be in (0, 1], got 1.5"))
        << of("topk", {.keep = 1.5});
    EXPECT_TRUE(contains(of("topk", {.scope = "layer"}), "one of model | tensor | chunk, got layer"));
    EXPECT_TRUE(contains(of("sgd", {.keep = 0.5}), "sgd has no parameter keep"));
    EXPECT_TRUE(contains(of("topkk", {}), "did you mean topk?"));
    EXPECT_TRUE(contains(of("dqsgd", {.tau = 1.0, .kappa = 1.0}), "give one of tau, kappa"));
    EXPECT_TRUE(contains(of("dqsgd", {.rule = "convex"}), "total_steps must be given for rule = convex"));
    EXPECT_TRUE(contains(of("qsgd", {.scope = "chunk", .chunk = 300}),
                         "qsgd: chunk must be a power of two in 64..65536, got 300: set 256"));
    EXPECT_TRUE(contains(of("qsgd", {.scope = "chunk", .chunk = 32}), "chunk must be in 64..65536, got 32"));
    EXPECT_TRUE(contains(of("terngrad", {.rounding = "nearest"}),
                         "rounding = nearest needs a memory of what it rounds away, got memory = none"));
    EXPECT_TRUE(contains(of("block-quant", {.memory = "none"}), "set memory = error"));
    EXPECT_TRUE(contains(of("block-quant", {.route = "gather"}), "set route = scatter"));
    EXPECT_TRUE(contains(of("regtopk", {.step_guard = "on"}), "step_guard needs the model"));
    MethodOptions options;
    EXPECT_TRUE(
        contains(message_of<InvalidConfig>([&] { set_option(options, "topk", "kep", "0.1"); }), "did you mean keep?"));
    EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { set_option(options, "topk", "keep", "x"); }), "got x"));
  });
}

}  // namespace
}  // namespace laconic::test
