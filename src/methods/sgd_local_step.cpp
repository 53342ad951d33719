// SGD as the local step, in the paper's form (Xu, Huang 2022):
//   1. g = gradient at y, plus weight_decay times y
//   2. m = β·m + g
//   3. p = η·d + e; the direction d is m, or with Nesterov's momentum, which the paper has not, g + β·m
// A step alone moves the model by −η·d, which is added to e, so that e is all that the worker owes. The error of the
// last meeting, e_0, is kept: the model is x − λ·e_0 − (e − e_0), after a resize with the mean of each.

#include <algorithm>
#include <utility>

#include "base/scratch_status.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/local_step.h"
#include "methods/momentum_undo.h"
#include "methods/state_memory.h"
#include "methods/tensor_runs.h"

namespace laconic {
namespace {

using CoefficientRuns = TensorRuns<Coefficients>;

class SgdLocalStep : public LocalStep {
 public:
  SgdLocalStep(const LocalStepOptions& options, const OptimizerOptions& optimizer)
      : options_(options),
        optimizer_(optimizer),
        usual_{.momentum = static_cast<float>(optimizer.momentum),
               .weight_decay = static_cast<float>(optimizer.weight_decay),
               .nesterov = optimizer.nesterov} {}

  bool takes_coefficients() const override { return true; }
  void prepare(MethodCore& core, UpdateMemory& memory) override;
  void begin(const StepInput& input) override;

  View<float> make_chunk(const Chunk& chunk, View<const float> model, View<float> gradient,
                         StatusView status) override;
  void take_back() override { undo_.take_back(place(), momentum()); }
  void keep() override { undo_.forget(); }
  void begin_round(View<const float> /*model*/) override { copy(place(), met(memory_->error()), met_error()); }

  Status try_alone(View<const float> model, View<float> gradient) override;
  void keep_alone(View<float> model, View<const float> gradient) override;

  void regroup(View<float> model, bool newcomer) override;
  void write_owed(View<const float> /*model*/, View<float> out) override { copy(place(), memory_->error(), out); }

  void save(State& state) const override;
  void put_expected(const State& state, State& expected) const override;
  void load(const State& state) override;
  std::vector<View<float>> owed() override;
  bool has_late_memory() const override { return keeps_momentum_; }
  void allocate_late_memory() override { keep_momentum(); }

 private:
  void accumulate(const CoefficientRuns::Run& run, View<const float> model, View<float> gradient, StatusView status);
  void keep_momentum();

  Place& place() const { return core_->place(); }
  std::uint64_t parameters() const { return core_->parameters(); }
  View<float> no_values() const { return momentum_.view(0); }
  View<float> momentum() const { return momentum_.view(keeps_momentum_ ? parameters() : 0); }
  bool steps_alone() const { return options_.period > 1; }
  /// A part of the error that is remembered between meetings: all, if there are steps between them.
  View<float> met(View<float> error) const { return error.sub(0, steps_alone() ? error.size() : 0); }
  View<float> met_error() const { return met_error_.view(steps_alone() ? parameters() : 0); }

  LocalStepOptions options_;
  OptimizerOptions optimizer_;
  Coefficients usual_;
  MethodCore* core_ = nullptr;
  UpdateMemory* memory_ = nullptr;
  bool keeps_momentum_ = false;   ///< from the first step on that has one
  CoefficientRuns coefficients_;  ///< of this step
  MomentumUndo undo_;             ///< of this step
  Buffer<float> met_error_;       ///< e_0, as the last meeting left it
  Buffer<float> momentum_;
};

void SgdLocalStep::prepare(MethodCore& core, UpdateMemory& memory) {
  core_ = &core;
  memory_ = &memory;
  met_error_.reserve(place(), met_error().size());
  momentum_.reserve(place(), 0);  // so that an empty one lies on the place's device too
  fill(place(), 0.0F, met_error());
  if (usual_.momentum != 0.0F) keep_momentum();
  coefficients_.prepare(core.tensors());
}

void SgdLocalStep::begin(const StepInput& input) {
  if (input.tensors.empty()) {
    usual_.learning_rate = input.learning_rate;
    coefficients_.set_by_tensor([&](std::size_t tensor) {
      Coefficients coefficients = usual_;
      if (!decays(optimizer_, core_->tensors()[tensor])) coefficients.weight_decay = 0.0F;
      return coefficients;
    });
  } else {
    coefficients_.set(input.tensors);
  }
  if (std::ranges::any_of(coefficients_.values(), [](const Coefficients& each) { return each.momentum != 0.0F; })) {
    keep_momentum();
  }
}

void SgdLocalStep::keep_momentum() {
  if (std::exchange(keeps_momentum_, true)) return;
  momentum_.reserve(place(), parameters());
  fill(place(), 0.0F, momentum());
}

/// 1, 2 and 3 for a run of tensors: m goes into the momentum, p into the next error.
void SgdLocalStep::accumulate(const CoefficientRuns::Run& run, View<const float> model, View<float> gradient,
                              StatusView status) {
  const auto here = [&](auto view) { return view.sub(run.offset, run.size); };
  const bool moves = run.value.momentum != 0.0F;
  add_step_to_error(place(), run.value, gradient,
                    {.model = here(model),
                     .error = here(memory_->error()),
                     .next_error = here(memory_->next_error()),
                     .momentum = moves ? here(momentum()) : no_values()},
                    status);
  if (moves) undo_.note(run.offset, gradient);  // which holds the momentum as it was
}

View<float> SgdLocalStep::make_chunk(const Chunk& chunk, View<const float> model, View<float> gradient,
                                     StatusView status) {
  coefficients_.for_each(chunk.first_tensor, chunk.offset, chunk.size, [&](const CoefficientRuns::Run& run) {
    accumulate(run, model, gradient.sub(run.offset - chunk.offset, run.size), status);
  });
  core_->note_nonfinite(chunk, memory_->next_error().sub(chunk.offset, chunk.size), read_status(place(), status));
  return no_values();
}

Status SgdLocalStep::try_alone(View<const float> model, View<float> gradient) {
  const ScratchStatus flags(place());
  coefficients_.for_each(0, 0, parameters(), [&](const CoefficientRuns::Run& run) {
    accumulate(run, model, gradient.sub(run.offset, run.size), flags.view());
  });
  const Status status = flags.read();
  core_->locate_nonfinite(memory_->next_error(), status);
  return status;
}

/// model −= η·d; accumulate has left the momentum as it was in the gradient.
void SgdLocalStep::keep_alone(View<float> model, View<const float> gradient) {
  undo_.forget();
  memory_->take_next_error();
  coefficients_.for_each(0, 0, parameters(), [&](const CoefficientRuns::Run& run) {
    const auto here = [&](auto view) { return view.sub(run.offset, run.size); };
    const bool moves = run.value.momentum != 0.0F;
    follow_step(place(), run.value, here(gradient), moves ? here(momentum()) : no_values(), here(model));
  });
}

void SgdLocalStep::regroup(View<float> model, bool /*newcomer*/) {
  if (!steps_alone()) return memory_->write_detached(place(), options_.lambda, model);
  subtract_scaled(place(), memory_->point(), options_.lambda, met_error(), model);
  subtract_difference(place(), memory_->error(), met_error(), model);
}

void SgdLocalStep::save(State& state) const {
  if (steps_alone()) put_memory(state, "residual of the last meeting", place(), met_error());
  put_memory(state, "momentum", place(), momentum());
}

/// A run has a momentum from the first step on that needs one, be it this run or the one that was saved.
void SgdLocalStep::put_expected(const State& state, State& expected) const {
  const std::vector<float> any(parameters());
  if (steps_alone()) expected.put("residual of the last meeting", View<const float>(any));
  expected.put("momentum", state.size("momentum") > 0 ? View<const float>(any) : View<const float>());
}

void SgdLocalStep::load(const State& state) {
  if (steps_alone()) get_memory(state, "residual of the last meeting", place(), met_error());
  if (state.size("momentum") > 0) {
    keep_momentum();
    get_memory(state, "momentum", place(), momentum());
  } else {
    fill(place(), 0.0F, momentum());
  }
}

std::vector<View<float>> SgdLocalStep::owed() {
  std::vector<View<float>> views;
  if (steps_alone()) views.push_back(met_error());
  if (keeps_momentum_) views.push_back(momentum());
  return views;
}

}  // namespace

std::unique_ptr<LocalStep> make_sgd_local_step(const LocalStepOptions& options, const OptimizerOptions& optimizer) {
  return std::make_unique<SgdLocalStep>(options, optimizer);
}

}  // namespace laconic
