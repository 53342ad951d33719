// Every method of the table with gradients, model and memory where no code but a kernel's or a codec's front door can
// touch them (support/rehearsal.h): the same bits as in ordinary memory. A method or an exchange that indexes into a
// view ends this program.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/touch.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/topk/topk.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/resume_check.h"
#include "support/method_names.h"
#include "support/rehearsal.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kRanks = 3;
constexpr std::uint32_t kSteps = 7;
constexpr std::uint32_t kDroppedStep = 2;
constexpr std::uint32_t kLoadBefore = 3;
constexpr std::uint32_t kResizeBefore = 5;
constexpr std::uint64_t kChunk = 600;  ///< entries of a chunk: several in the small model

/// All that a run showed, as bytes.
class Trace {
 public:
  void note(const std::vector<float>& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), begin, begin + values.size() * sizeof(float));
  }
  void note(const std::vector<std::byte>& bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void note(double value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  /// Where two traces part; nothing if they are equal.
  static std::optional<std::size_t> difference(const Trace& one, const Trace& other) {
    const auto [first, second] =
        std::mismatch(one.bytes_.begin(), one.bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    if (first == one.bytes_.end() && second == other.bytes_.end()) return std::nullopt;
    return static_cast<std::size_t>(first - one.bytes_.begin());
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

struct MethodRun {
  const MethodRow* row;
  MethodOptions options;
  std::string description;
  std::uint64_t chunk_entries = 0;  ///< 0: the usual, one chunk of this small model
};

StepKey key_of(const Communicator& communicator, std::uint32_t step) {
  return {42, step, static_cast<std::uint32_t>(communicator.rank())};
}

/// This step's gradient at a point. In one step a rank has an Inf, which all drop.
std::vector<float> gradient_at(const std::vector<float>& model, int rank, std::uint32_t step) {
  auto gradient = pull_gradient(model, rank, step);
  if (step == kDroppedStep && rank == 1) gradient[705] = std::numeric_limits<float>::infinity();
  return gradient;
}

/// A gradient as tensors that lie apart from each other.
class ApartTensors {
 public:
  ApartTensors(Place& place, const std::vector<float>& flat) {
    auto next = flat.begin();
    for (const Tensor& tensor : small_model()) {
      const auto end = next + static_cast<std::ptrdiff_t>(tensor.size);
      tensors_.push_back(std::make_unique<PlacedValues>(place, std::vector<float>(next, end)));
      next = end;
    }
  }
  /// In two lists, out of order.
  template <class Method>
  void add_to(Method& method) const {
    const auto part = [&](std::uint32_t tensor) { return TensorPart{tensor, tensors_[tensor]->view()}; };
    const std::vector<TensorPart> first{part(3), part(1)};
    const std::vector<TensorPart> second{part(0), part(2)};
    method.add(first);
    method.poll();
    method.add(second);
  }
  void note(Trace& trace) const {
    for (const auto& tensor : tensors_) trace.note(tensor->get());
  }

 private:
  std::vector<std::unique_ptr<PlacedValues>> tensors_;
};

template <class Make>
auto prepared(const MethodRun& run, const Make& make) {
  auto method = make();
  method->set_nonfinite_policy(NonfinitePolicy::skip);
  if (run.chunk_entries > 0) method->set_chunk_entries(run.chunk_entries);
  method->register_tensors(small_model());
  return method;
}

/// By reduce and by parts in turn; saved and loaded, and given another communicator, on the way.
Trace reduce_steps(const MethodRun& run, Communicator& communicator, Place& place) {
  Trace trace;
  std::unique_ptr<Communicator> next = communicator.duplicate();
  const std::vector<float> point(size_of(small_model()), 0.5F);
  const auto make = [&] { return make_method(run.row->name, run.options, communicator, place); };
  auto method = prepared(run, make);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    if (step == kLoadBefore) {
      const State state = State::from_bytes(method->save().to_bytes());
      method = prepared(run, make);
      method->load(state);
    }
    if (step == kResizeBefore) method->resize(next.get());
    const auto gradient = gradient_at(point, communicator.rank(), step);
    if (step % 2 == 0) {
      PlacedValues values(place, gradient);
      trace.note(method->reduce(key_of(communicator, step), values.view()).extra);
      trace.note(values.get());
    } else {
      const ApartTensors tensors(place, gradient);
      method->begin(key_of(communicator, step));
      tensors.add_to(*method);
      trace.note(method->finish().extra);
      tensors.note(trace);
    }
    trace.note(method->residual_norm());
    trace.note(method->save().to_bytes());
  }
  return trace;
}

/// The optimizers that a model method may have; a host's own copies what it gets.
std::vector<OptimizerOptions> optimizers(Place& place) {
  const HostStep host = [&place](View<const float> gradient, View<float> model) {
    std::vector<float> slope(gradient.size());
    std::vector<float> point(model.size());
    copy_to_host(place, gradient, slope.data());
    copy_to_host<float>(place, model, point.data());
    for (std::size_t i = 0; i < point.size(); ++i) point[i] -= 0.05F * slope[i];
    copy_from_host(place, point.data(), model);
  };
  return {{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
          {},
          {.name = "adam", .weight_decay = 0.01},
          {.name = "host", .host = host}};
}

/// By step and by parts in turn, with the same on the way.
Trace model_steps(const MethodRun& run, const OptimizerOptions& optimizer, Communicator& communicator, Place& place) {
  Trace trace;
  std::unique_ptr<Communicator> next = communicator.duplicate();
  PlacedValues model(place, std::vector<float>(size_of(small_model()), 0.5F));
  PlacedValues out(place, model.get());
  const auto make = [&] {
    auto method = make_model_method(run.row->name, run.options, optimizer, communicator, place);
    method->set_scoring([&place](View<const float> point, View<float> gradient) {
      std::vector<float> here(point.size());
      copy_to_host(place, point, here.data());
      const auto slope = pull_gradient(here, 1000, 0);
      copy_from_host(place, slope.data(), gradient);
    });
    return method;
  };
  auto method = prepared(run, make);
  method->start(model.view());
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    if (step == kLoadBefore) {
      const State state = State::from_bytes(method->save().to_bytes());
      method = prepared(run, make);
      method->load(state);
      method->start(model.view());
    }
    if (step == kResizeBefore) {
      method->resize(next.get());
      method->start(model.view());
    }
    const auto gradient = gradient_at(model.get(), communicator.rank(), step);
    const StepInput input{key_of(communicator, step), 0.05F, static_cast<float>(communicator.rank() + step % 2)};
    if (step % 2 == 0) {
      PlacedValues values(place, gradient);
      trace.note(method->step(input, model.view(), values.view()).extra);
    } else {
      const ApartTensors tensors(place, gradient);
      method->begin_step(input, model.view());
      tensors.add_to(*method);
      trace.note(method->finish_step().extra);
    }
    trace.note(model.get());
    trace.note(method->residual_norm());
    trace.note(method->save().to_bytes());
  }
  method->read_out(model.view(), out.view());
  trace.note(out.get());
  return trace;
}

/// Runs `steps` in both kinds of memory. Collective.
template <class Steps>
void expect_same_bits(const std::string& description, const Steps& steps) {
  Place ordinary({.threads = 1});
  const Trace expected = steps(ordinary);
  const auto rehearsed = rehearsed_place();
  const Trace found = steps(*rehearsed);
  const auto difference = Trace::difference(expected, found);
  EXPECT_GT(expected.size(), 0U) << description;
  EXPECT_FALSE(difference.has_value()) << description << ": the runs part at byte " << *difference;
}

/// Whether the method takes the optimizer.
template <class Make>
bool is_accepted(const Make& make) {
  const auto alone = thread_communicators(1);
  Place place({.threads = 1});
  try {
    make(*alone.front(), place);
    return true;
  } catch (const InvalidConfig&) {
    return false;
  }
}

void check_gradient_face(const MethodRun& run) {
  run_ranks(kRanks, [&](Communicator& communicator) {
    expect_same_bits(run.description, [&](Place& place) { return reduce_steps(run, communicator, place); });
  });
}

/// With the first optimizers that the method takes, `most` of them. Returns how many these are.
int check_model_face(const MethodRun& run, int most) {
  int taken = 0;
  Place anywhere({.threads = 1});
  for (std::size_t i = 0; i < optimizers(anywhere).size() && taken < most; ++i) {
    const bool accepted = is_accepted([&](Communicator& communicator, Place& place) {
      make_model_method(run.row->name, run.options, optimizers(place)[i], communicator, place);
    });
    if (!accepted) continue;
    ++taken;
    run_ranks(kRanks, [&](Communicator& communicator) {
      expect_same_bits(run.description + ", optimizer " + std::to_string(i), [&](Place& place) {
        return model_steps(run, optimizers(place)[i], communicator, place);
      });
    });
  }
  return taken;
}

/// A gradient method reduces, unless it guards steps, which takes the model.
bool has_gradient_face(const MethodRun& run) {
  return run.row->face == Face::gradient && run.options.step_guard != "on";
}

/// Both faces, as far as the method has them.
void check(MethodRun run, std::uint64_t chunk_entries, int most_optimizers) {
  if (run.options.period.has_value()) run.options.period = 2.0;  // several rounds in these few steps
  run.chunk_entries = chunk_entries;
  rehearse_as(run.description);
  SCOPED_TRACE(run.description);
  if (has_gradient_face(run)) check_gradient_face(run);  // throws for settings that it refuses
  EXPECT_GT(check_model_face(run, most_optimizers), 0);
}

class RehearsedMethod : public testing::TestWithParam<std::string> {
 protected:
  const MethodRow& row() const { return method_row(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Table, RehearsedMethod, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(RehearsedMethod, GivesTheSameBitsWithEveryOptimizer) {
  check({&row(), small_options(row()), row().name}, kChunk, 100);
}

TEST_P(RehearsedMethod, GivesTheSameBitsInOneChunk) { check({&row(), small_options(row()), row().name}, 0, 1); }

TEST_P(RehearsedMethod, GivesTheSameBitsWithEveryChoiceOfEveryWord) {
  for (const WordChoice& choice : every_word_choice()) {
    if (choice.row == &row()) check({choice.row, choice.options, choice.description}, kChunk, 1);
  }
}

/// Numbers that switch a part of a method on.
TEST_P(RehearsedMethod, GivesTheSameBitsWithItsNumbers) {
  using Number = decltype(Parameter::number);
  const std::vector<std::pair<Number, double>> switches{{&MethodOptions::abstain, 0.5},
                                                        {&MethodOptions::early_sign, 2.0},
                                                        {&MethodOptions::momentum, 0.9},
                                                        {&MethodOptions::weight_decay, 0.01},
                                                        {&MethodOptions::local_steps, 2.0},
                                                        {&MethodOptions::proximity, 0.5}};
  for (const Parameter& parameter : row().parameters) {
    for (const auto& [number, value] : switches) {
      if (parameter.number != number) continue;
      MethodRun run{&row(), small_options(row()), std::string(row().name) + " " + parameter.name};
      run.options.*number = value;
      check(run, kChunk, 1);
    }
  }
}

/// Enough entries for all threads of a pool, in the memory of a place that has several.
TEST(RehearsedPlace, OpensItsMemoryToTheThreadsOfItsPool) {
  rehearse_as("kernels on three threads");
  const std::size_t n = 200'000;
  const auto steps = [&](Place& place) {
    Trace trace;
    PlacedValues gradient(place, normal_values(n, 1));
    PlacedValues residual(place, normal_values(n, 2));
    PlacedValues rest(place, normal_values(n, 3));
    Buffer<std::uint32_t> indices;
    indices.reserve(place, n / 100);
    PlacedValues values(place, std::vector<float>(n / 100));
    Status status;
    error_feedback_topk(place, gradient.view(), residual.view(), rest.view(), {indices.view(), values.view()},
                        view_of(status));
    double squares = 0.0;
    sum_of_squares(place, rest.view(), View<double>(&squares, 1), view_of(status));
    axpy(place, 0.5F, rest.view(), gradient.view());
    trace.note(squares);
    trace.note(values.get());
    trace.note(gradient.get());
    return trace;
  };
  Place ordinary({.threads = 3});
  const auto rehearsed = rehearsed_place({.threads = 3});
  EXPECT_FALSE(Trace::difference(steps(ordinary), steps(*rehearsed)).has_value());
}

TEST(RehearsedPlaceDeathTest, EndsTheProgramThatTouchesItsMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto place = rehearsed_place();
  rehearse_as("a loop of this test");
  PlacedValues values(*place, {1.0F, 2.0F});
  float sum = 0.0F;
  {
    const Touch outer(*place);
    const Touch inner(*place);
    for (const float value : values.view()) sum += value;
  }
  EXPECT_EQ(sum, 3.0F);
  fill(*place, 4.0F, values.view());  // opens, and closes again
  EXPECT_EQ(values.get(), (std::vector<float>{4.0F, 4.0F}));
  EXPECT_DEATH(
      {
        for (const float value : values.view()) sum += value;
        std::exit(sum > 0.0F ? 0 : 1);
      },
      "memory of a rehearsed place was touched outside a front door, by: a loop of this test");
}

}  // namespace
}  // namespace laconic::test
