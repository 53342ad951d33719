#pragma once

// A method in two kinds of memory: the same steps on an ordinary place of the CPU and on another place give the same
// bits. Rehearsed places and places on a device are tested by it, over every row of the table.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "laconic/two_levels.h"
#include "methods/resize_checks.h"
#include "methods/resume_check.h"
#include "methods/tensor_by_tensor.h"
#include "methods/trace.h"
#include "support/method_names.h"
#include "support/one_order.h"
#include "support/placed_values.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic::test {

inline constexpr int kRanks = 3;
inline constexpr std::uint32_t kSteps = 7;
inline constexpr std::uint32_t kDroppedStep = 2;
inline constexpr std::uint32_t kLoadBefore = 3;
inline constexpr std::uint32_t kResizeBefore = 5;
inline constexpr std::uint64_t kChunk = 600;  ///< entries of a chunk: several in the small model

struct MethodRun {
  const MethodRow* row;
  MethodOptions options;
  std::string description;
  std::uint64_t chunk_entries = 0;  ///< 0: the usual, one chunk of this small model
  std::shared_ptr<Place> copying{};  ///< copies messages between ranks on a device; null: they go through CPU memory
  int ranks = kRanks;
  bool one_order = false;  ///< whether the engine needs one order for all calls, as NCCL does
};

/// Calls `compare` on the run's ranks, each in a thread of its own. If their engine needs one order for all calls, the
/// orders of all ranks must be the same.
inline void run_ranks_of(const MethodRun& run, const std::function<void(Communicator&)>& compare) {
  if (!run.one_order) return run_ranks(run.ranks, compare, run.copying);
  std::vector<CallLog> logs(static_cast<std::size_t>(run.ranks));
  const auto compare_in_order = [&](Communicator& engine) {
    OneOrder ordered(engine.duplicate(), logs[static_cast<std::size_t>(engine.rank())]);
    compare(ordered);
  };
  run_ranks(run.ranks, compare_in_order, run.copying);
  EXPECT_FALSE(logs.front().calls.empty()) << run.description;
  for (const CallLog& log : logs) {
    EXPECT_TRUE(log.calls == logs.front().calls) << run.description << ": the order of calls differs between ranks";
  }
}

/// This step's gradient at a point. In one step a rank has an Inf, which all drop.
inline std::vector<float> gradient_at(const std::vector<float>& model, int rank, std::uint32_t step) {
  auto gradient = pull_gradient(model, rank, step);
  if (step == kDroppedStep && rank == 1) gradient[205] = std::numeric_limits<float>::infinity();
  return gradient;
}

template <class Make>
auto prepared(const MethodRun& run, const Make& make) {
  auto method = make();
  method->set_nonfinite_policy(NonfinitePolicy::skip);
  if (run.chunk_entries > 0) method->set_chunk_entries(run.chunk_entries);
  method->register_tensors(small_model());
  return method;
}

/// By reduce and by parts in turn; saved and loaded, and given another communicator, on the way.
inline Trace reduce_steps(const MethodRun& run, Communicator& communicator, Place& place, GradientTypes types) {
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
    const auto gradient = rounded_to(types.values, gradient_at(point, communicator.rank(), step));
    if (step % 2 == 0) {
      PlacedGradient values(place, gradient, types.memory);
      trace.note(method->reduce(key_of(communicator, step), values.view()).extra);
      trace.note(rounded_to(types.values, values.get()));
    } else {
      const TensorByTensor tensors(place, gradient, step == 1, types);
      method->begin(key_of(communicator, step));
      tensors.add_to(*method, communicator.rank());
      trace.note(method->finish().extra);
      tensors.note(trace);
    }
    trace.note(method->residual_norm());
    trace.note(method->save().to_bytes());
  }
  return trace;
}

/// The optimizers that a model method may have; a host's own copies what it gets.
inline std::vector<OptimizerOptions> optimizers(Place& place) {
  const HostStep host = [&place](View<const float> gradient, View<float> model) {
    std::vector<float> slope(gradient.size());
    std::vector<float> point(model.size());
    copy_to_cpu(place, gradient, slope.data());
    copy_to_cpu<float>(place, model, point.data());
    for (std::size_t i = 0; i < point.size(); ++i) point[i] -= 0.05F * slope[i];
    copy_from_cpu(place, point.data(), model);
  };
  return {{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
          {},
          {.name = "adamw", .weight_decay = 0.01},
          {.name = "host", .host = host}};
}

/// By step and by parts in turn, with the same on the way.
inline Trace model_steps(const MethodRun& run, const OptimizerOptions& optimizer, Communicator& communicator,
                         Place& place) {
  Trace trace;
  std::unique_ptr<Communicator> next = communicator.duplicate();
  PlacedValues model(place, std::vector<float>(size_of(small_model()), 0.5F));
  PlacedValues out(place, model.get());
  const auto make = [&] {
    auto method = make_model_method(run.row->name, run.options, optimizer, communicator, place);
    method->set_scoring([&place](View<const float> point, View<float> gradient) {
      std::vector<float> here(point.size());
      copy_to_cpu(place, point, here.data());
      const auto slope = pull_gradient(here, 1000, 0);
      copy_from_cpu(place, slope.data(), gradient);
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
      const TensorByTensor tensors(place, gradient, true);
      method->begin_step(input, model.view());
      tensors.add_to(*method, communicator.rank());
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
void expect_same_bits(const std::string& description, Place& ordinary, Place& other, const Steps& steps) {
  const Trace expected = steps(ordinary);
  const Trace found = steps(other);
  const auto difference = Trace::difference(expected, found);
  EXPECT_GT(expected.size(), 0U) << description;
  EXPECT_FALSE(difference.has_value()) << description << ": the runs part at byte " << *difference;
}

template <class Steps>
void expect_same_bits(const std::string& description, Place& other, const Steps& steps) {
  Place ordinary({.threads = 1});
  expect_same_bits(description, ordinary, other, steps);
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

/// A gradient method reduces, unless it guards steps, which takes the model.
inline bool has_gradient_face(const MethodRun& run) {
  return run.row->face == Face::gradient && run.options.step_guard != "on";
}

inline void check_gradient_face(const MethodRun& run, const PlaceMaker& make_place) {
  const auto compare = [&](Communicator& communicator) {
    const auto other = make_place(communicator.rank());
    expect_same_bits(run.description, *other, [&](Place& place) { return reduce_steps(run, communicator, place, {}); });
  };
  run_ranks_of(run, compare);
}

/// Gradients that lie in 16 bits in the other place: the memory of the method is as with the same gradients in float32,
/// and the results are those, rounded.
inline void check_16bit_gradients(MethodRun run, std::uint64_t chunk_entries, const PlaceMaker& make_place) {
  if (!has_gradient_face(run)) return;
  run.chunk_entries = chunk_entries;
  for (const NumberType type : {NumberType::float16, NumberType::bfloat16}) {
    const auto compare = [&](Communicator& communicator) {
      Place ordinary({.threads = 1});
      const auto other = make_place(communicator.rank());
      const Trace expected = reduce_steps(run, communicator, ordinary, {NumberType::float32, type});
      const Trace found = reduce_steps(run, communicator, *other, {type, type});
      const auto difference = Trace::difference(expected, found);
      EXPECT_FALSE(difference.has_value()) << run.description << ", " << format_name(format_of(type))
                                           << ": the runs part at byte " << *difference;
    };
    run_ranks_of(run, compare);
  }
}

/// Two machines of two ranks each, and a step in which a rank has an Inf. The gradients of the other place are of
/// `type`.
inline void check_two_levels(const MethodRun& run, const PlaceMaker& make_place,
                             NumberType type = NumberType::float32) {
  const auto compare = [&](Communicator& communicator) {
    TwoLevels levels(communicator, hosts_of_size(4, 2));
    Place ordinary({.threads = 1});
    const auto steps = [&](Place& place) {
      const GradientTypes types{&place == &ordinary ? NumberType::float32 : type, type};
      Trace trace;
      const std::vector<float> point(size_of(small_model()), 0.5F);
      const auto method = prepared(run, [&] { return make_method(run.row->name, run.options, levels, place); });
      for (std::uint32_t step = 0; step < 4; ++step) {
        const auto gradient = rounded_to(type, gradient_at(point, communicator.rank(), step));
        const TensorByTensor tensors(place, gradient, step == 1, types);
        method->begin(key_of(communicator, step));
        tensors.add_to(*method, communicator.rank());
        EXPECT_EQ(method->finish().skipped, step == kDroppedStep);
        tensors.note(trace);
        trace.note(method->residual_norm());
        trace.note(method->save().to_bytes());
      }
      return trace;
    };
    const auto other = make_place(communicator.rank());
    expect_same_bits(run.description + " on two levels", ordinary, *other, steps);
  };
  run_ranks(4, compare, run.copying);
}

/// A group that changes from so many ranks to so many. `make_place` gets the rank among all that are ever there.
inline void check_changing_ranks(const ResizedMethod& resized, int before, int after, const PlaceMaker& make_place,
                                 const std::shared_ptr<Place>& copying) {
  const std::string change = " with " + std::to_string(before) + " ranks, then " + std::to_string(after);
  const auto compare = [&](const ChangingRank& rank) {
    SCOPED_TRACE(resized.name + change);
    const auto other = make_place(rank.everyone.rank());
    expect_same_bits(resized.name + change, *other, [&](Place& place) {
      Trace trace;
      check_resize(resized, rank, place, trace);
      return trace;
    });
  };
  run_changing_ranks(before, after, compare, copying);
}

/// A rank joins and a rank leaves, in several chunks and in one, with all settings of the row that resized_methods has.
inline void check_joining_and_leaving(const MethodRow& row, const PlaceMaker& make_place,
                                      const std::shared_ptr<Place>& copying = nullptr) {
  for (ResizedMethod resized : resized_methods()) {
    if (resized.row != &row) continue;
    resized.chunk_entries = kChunk;
    check_changing_ranks(resized, 2, 3, make_place, copying);
    resized.chunk_entries = 0;
    check_changing_ranks(resized, 3, 2, make_place, copying);
  }
}

/// With the first optimizers that the method takes, `most` of them. Returns how many these are.
inline int check_model_face(const MethodRun& run, int most, const PlaceMaker& make_place) {
  int taken = 0;
  Place anywhere({.threads = 1});
  for (std::size_t i = 0; i < optimizers(anywhere).size() && taken < most; ++i) {
    const bool accepted = is_accepted([&](Communicator& communicator, Place& place) {
      make_model_method(run.row->name, run.options, optimizers(place)[i], communicator, place);
    });
    if (!accepted) continue;
    ++taken;
    const auto compare = [&](Communicator& communicator) {
      const auto other = make_place(communicator.rank());
      expect_same_bits(run.description + ", optimizer " + std::to_string(i), *other, [&](Place& place) {
        return model_steps(run, optimizers(place)[i], communicator, place);
      });
    };
    run_ranks_of(run, compare);
  }
  return taken;
}

/// Both faces, as far as the method has them.
inline void check(MethodRun run, std::uint64_t chunk_entries, int most_optimizers, const PlaceMaker& make_place) {
  if (run.options.period.has_value()) run.options.period = 2.0;  // several rounds in these few steps
  run.chunk_entries = chunk_entries;
  SCOPED_TRACE(run.description);
  if (has_gradient_face(run)) check_gradient_face(run, make_place);  // throws for settings that it refuses
  EXPECT_GT(check_model_face(run, most_optimizers, make_place), 0);
}

/// Numbers that switch a part of a method on.
inline std::vector<MethodRun> runs_with_numbers(const MethodRow& row) {
  using Number = decltype(Parameter::number);
  const std::vector<std::pair<Number, double>> switches{{&MethodOptions::abstain, 0.5},
                                                        {&MethodOptions::early_sign, 2.0},
                                                        {&MethodOptions::turns, 3.0},
                                                        {&MethodOptions::momentum, 0.9},
                                                        {&MethodOptions::weight_decay, 0.01},
                                                        {&MethodOptions::local_steps, 2.0},
                                                        {&MethodOptions::chunk, 64.0},
                                                        {&MethodOptions::proximity, 0.5}};
  std::vector<MethodRun> runs;
  for (const Parameter& parameter : row.parameters) {
    for (const auto& [number, value] : switches) {
      if (parameter.number != number) continue;
      MethodRun run{&row, small_options(row), std::string(row.name) + " " + parameter.name};
      run.options.*number = value;
      if (number == &MethodOptions::chunk) run.options.scope = "chunk";
      if (number == &MethodOptions::chunk && sends_all(row)) run.options.keep = 0.1;
      runs.push_back(run);
    }
  }
  return runs;
}

/// A method with each choice of each of its words.
inline std::vector<MethodRun> runs_with_words(const MethodRow& row) {
  std::vector<MethodRun> runs;
  for (const WordChoice& choice : every_word_choice()) {
    if (choice.row == &row) runs.push_back({choice.row, choice.options, choice.description});
  }
  return runs;
}

}  // namespace laconic::test
