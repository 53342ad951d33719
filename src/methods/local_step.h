#pragma once

#include <memory>
#include <vector>

#include "laconic/state.h"
#include "methods/core.h"
#include "methods/optimizer.h"
#include "methods/update_memory.h"

namespace laconic {

/// What a local step needs to know of its method.
struct LocalStepOptions {
  float lambda = 0.0F;
  std::uint32_t period = 1;  ///< H
};

/// How a worker moves its own model, 1 to 3 of a compressed update (updates.cpp). Ranks meet in the last step of a
/// round; in the others a worker steps alone. Whatever a step changes before it is known to count can be taken back.
class LocalStep {
 public:
  virtual ~LocalStep() = default;

  /// Whether steps take coefficients of each tensor (StepInput::tensors), or shrink factors (StepInput::shrink).
  virtual bool takes_coefficients() const { return false; }
  virtual bool takes_shrink() const { return false; }
  /// False if the step needs the whole gradient, and the ranks' agreement that it is finite, before it begins.
  virtual bool goes_by_chunk() const { return true; }

  virtual void prepare(MethodCore& core, UpdateMemory& memory) = 0;
  /// For a new group of ranks as well.
  virtual void make_exchanges() {}
  virtual void begin(const StepInput& input) = 0;

  // A step in which ranks meet.
  /// For a step that does not go by chunk: whether all ranks' gradients are finite, and if they are, the step itself.
  virtual Status make_whole(View<const float> /*model*/, View<const float> /*gradient*/, StepReport& /*report*/) {
    return {};
  }
  /// Steps a chunk. Returns s − y, which lies in `gradient`; or an empty view if it has written p = (s − y) + e into
  /// next_error itself.
  virtual View<float> make_chunk(const Chunk& chunk, View<const float> model, View<float> gradient,
                                 StatusView status) = 0;
  virtual void take_back() {}
  /// The step counts. Decoupled weight decay is applied to x.
  virtual void keep() {}
  /// A round begins: the model is x − λ·e.
  virtual void begin_round(View<const float> /*model*/) {}

  // A step alone.
  /// Sets status.nonfinite if the step must be dropped. It has not moved the model yet.
  virtual Status try_alone(View<const float> model, View<float> gradient) = 0;
  virtual void keep_alone(View<float> model, View<const float> gradient) = 0;
  virtual void drop_alone(View<float> /*model*/) { take_back(); }

  /// After a resize: writes the point where the next gradient is taken.
  virtual void regroup(View<float> model, bool newcomer) = 0;
  /// All that the worker has not sent: e, and what it moved since the last meeting.
  virtual void write_owed(View<const float> model, View<float> out) = 0;

  virtual void save(State& state) const = 0;
  /// Puts the entries that `state` should have, of which only names and sizes count.
  virtual void put_expected(const State& /*state*/, State& expected) const { save(expected); }
  virtual void require_loadable(const State& /*state*/) const {}
  virtual void load(const State& state) = 0;
  /// Memory beside e that a resize replaces by its mean, and whether a step has made it (memory.h).
  virtual std::vector<View<float>> owed() { return {}; }
  virtual bool has_late_memory() const { return false; }
  virtual void allocate_late_memory() {}

 protected:
  LocalStep() = default;
};

/// SGD whose step η·d is added to e without passing through the model, so that nothing is lost to the rounding of
/// s − y. Settings may differ by tensor.
std::unique_ptr<LocalStep> make_sgd_local_step(const LocalStepOptions& options, const OptimizerOptions& optimizer);
/// Any optimizer; its memory is the worker's own.
std::unique_ptr<LocalStep> make_optimizer_local_step(const LocalStepOptions& options,
                                                     const OptimizerOptions& optimizer);

}  // namespace laconic
