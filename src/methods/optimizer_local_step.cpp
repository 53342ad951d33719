// Any optimizer as the local step.
//   1. y = the optimizer's step at y; decoupled weight decay multiplies y, s and x by the same factor
//   2. what the worker moved by: s − y
// The optimizer's memory stays with its worker: it is saved with the method, a resize does not touch it, and a newcomer's
// begins empty. A meeting that is dropped leaves it as it was: the step writes its moments beside the old ones. A host's
// optimizer has no copy: ranks first tell each other whether their gradients are finite, and drop the step before it is
// called; if it then makes a model that is not finite, all ranks throw, because its step cannot be taken back. A step
// alone is dropped before the optimizer sees its gradient. The other ranks do not learn of it, so its weight decay is
// still applied: x must stay the same everywhere.

#include <utility>

#include "base/scratch_status.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/local_step.h"
#include "methods/look_ahead.h"
#include "methods/state_memory.h"
#include "methods/tensor_runs.h"

namespace laconic {
namespace {

using ShrinkRuns = TensorRuns<float>;

class OptimizerLocalStep : public LocalStep {
 public:
  OptimizerLocalStep(const LocalStepOptions& options, const OptimizerOptions& optimizer)
      : options_(options), optimizer_(optimizer), tried_(optimizer) {}

  bool takes_shrink() const override { return optimizer_.is_host(); }
  bool goes_by_chunk() const override { return !optimizer_.is_host(); }
  void prepare(MethodCore& core, UpdateMemory& memory) override;
  void make_exchanges() override {
    if (optimizer_.is_host()) look_ahead_ = std::make_unique<LookAhead>(*core_);
  }
  void begin(const StepInput& input) override;

  Status make_whole(View<const float> model, View<const float> gradient, StepReport& report) override;
  View<float> make_chunk(const Chunk& chunk, View<const float> model, View<float> gradient,
                         StatusView status) override;
  void keep() override;
  void begin_round(View<const float> model) override {
    if (keeps_start()) copy(place(), model, start_.view(parameters()));
  }

  Status try_alone(View<const float> model, View<float> gradient) override;
  void keep_alone(View<float> model, View<const float> gradient) override;
  void drop_alone(View<float> model) override;

  void regroup(View<float> model, bool newcomer) override;
  void write_owed(View<const float> model, View<float> out) override;

  void save(State& state) const override;
  void require_loadable(const State& state) const override {
    Optimizer::require_loadable(state.nested("optimizer"));
  }
  void load(const State& state) override;

 private:
  Place& place() const { return core_->place(); }
  std::uint64_t parameters() const { return core_->parameters(); }
  /// s is the model in a round of one step, and x without detachment. Only otherwise is there memory for it.
  bool keeps_start() const { return options_.period > 1 && options_.lambda != 0.0F; }
  View<const float> start(View<const float> model) const {
    if (keeps_start()) return start_.view(parameters());
    return options_.period > 1 ? View<const float>(memory_->point()) : model;
  }
  void shrink(View<float> values);
  void shrink_shared();

  LocalStepOptions options_;
  MethodCore* core_ = nullptr;
  UpdateMemory* memory_ = nullptr;
  float learning_rate_ = 0.0F;  ///< of this step
  ShrinkRuns shrink_;           ///< of this step
  Optimizer optimizer_;
  Optimizer tried_;  ///< in a step in which ranks meet
  std::unique_ptr<LookAhead> look_ahead_;
  Buffer<float> start_;  ///< s
};

void OptimizerLocalStep::prepare(MethodCore& core, UpdateMemory& memory) {
  core_ = &core;
  memory_ = &memory;
  optimizer_.prepare(place(), core.tensors());
  tried_.prepare(place(), core.tensors());
  shrink_.prepare(core.tensors());
  start_.reserve(place(), keeps_start() ? parameters() : 0);
  fill(place(), 0.0F, start_.view(keeps_start() ? parameters() : 0));
}

void OptimizerLocalStep::begin(const StepInput& input) {
  learning_rate_ = input.learning_rate;
  if (input.shrink.empty()) {
    const float shrink = optimizer_.shrink(learning_rate_);
    shrink_.set_by_tensor([&](std::size_t tensor) {
      return decays(optimizer_.options(), core_->tensors()[tensor]) ? shrink : 1.0F;
    });
  } else {
    shrink_.set(input.shrink);
  }
  tried_.take_step_of(optimizer_);
}

Status OptimizerLocalStep::make_whole(View<const float> model, View<const float> gradient, StepReport& report) {
  const Status ahead = look_ahead_->all_finite(gradient, report);
  if (ahead.nonfinite != 0) return ahead;
  copy(place(), model, memory_->next_error());
  optimizer_.step(place(), learning_rate_, gradient, memory_->next_error());
  return ahead;
}

View<float> OptimizerLocalStep::make_chunk(const Chunk& chunk, View<const float> model, View<float> gradient,
                                           StatusView status) {
  const auto here = [&](auto view) { return view.sub(chunk.offset, chunk.size); };
  const View<float> y = here(memory_->next_error());
  if (goes_by_chunk()) {
    tried_.try_part(place(), learning_rate_, chunk.offset, gradient, optimizer_, here(model), y);  // 1
  }
  shrink_.for_each(chunk.first_tensor, chunk.offset, chunk.size, [&](const ShrinkRuns::Run& run) {
    const std::uint64_t offset = run.offset - chunk.offset;
    scaled_difference(place(), run.value, start(model).sub(run.offset, run.size), y.sub(offset, run.size),
                      gradient.sub(offset, run.size), status);  // 2
  });
  return gradient;
}

void OptimizerLocalStep::keep() {
  if (goes_by_chunk()) std::swap(optimizer_, tried_);
  shrink(memory_->point());
}

Status OptimizerLocalStep::try_alone(View<const float> /*model*/, View<float> gradient) {
  const ScratchStatus flags(place());
  find_nonfinite(place(), gradient, flags.view());
  const Status status = flags.read();
  core_->locate_nonfinite(gradient, status);
  return status;
}

void OptimizerLocalStep::keep_alone(View<float> model, View<const float> gradient) {
  optimizer_.step(place(), learning_rate_, gradient, model);  // 1
  shrink_shared();
}

void OptimizerLocalStep::drop_alone(View<float> model) {
  shrink(model);
  shrink_shared();
}

/// Decoupled weight decay of values that belong to the model.
void OptimizerLocalStep::shrink(View<float> values) {
  shrink_.for_each(0, 0, parameters(), [&](const ShrinkRuns::Run& run) {
    if (run.value != 1.0F) scale(place(), run.value, values.sub(run.offset, run.size));
  });
}

void OptimizerLocalStep::shrink_shared() {
  shrink(memory_->point());
  if (keeps_start()) shrink(start_.view(parameters()));
}

/// The mean of e has moved s; what the worker moved by since the last meeting stays its own.
void OptimizerLocalStep::regroup(View<float> model, bool newcomer) {
  if (newcomer || options_.period == 1) {
    memory_->write_detached(place(), options_.lambda, model);
    return begin_round(model);
  }
  if (!keeps_start()) return;
  const View<float> s = start_.view(parameters());
  const View<float> next = memory_->next_error();
  memory_->write_detached(place(), options_.lambda, next);
  subtract_difference(place(), s, next, model);
  copy(place(), next, s);
}

void OptimizerLocalStep::write_owed(View<const float> model, View<float> out) {
  const ScratchStatus unused(place());
  scaled_difference(place(), 1.0F, start(model), model, out, unused.view());  // zero in a round of one step
  if (!memory_->error().empty()) axpy(place(), 1.0F, memory_->error(), out);
}

void OptimizerLocalStep::save(State& state) const {
  if (keeps_start()) put_memory(state, "start of the round", place(), start_.view(parameters()));
  State optimizer;
  optimizer_.save(place(), optimizer);
  state.put("optimizer", optimizer);
}

void OptimizerLocalStep::load(const State& state) {
  if (keeps_start()) get_memory(state, "start of the round", place(), start_.view(parameters()));
  optimizer_.load(place(), state.nested("optimizer"));
}

}  // namespace

std::unique_ptr<LocalStep> make_optimizer_local_step(const LocalStepOptions& options,
                                                     const OptimizerOptions& optimizer) {
  return std::make_unique<OptimizerLocalStep>(options, optimizer);
}

}  // namespace laconic
