#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/gradient_view.h"
#include "laconic/state.h"
#include "laconic/step.h"
#include "laconic/view.h"

namespace laconic {

/// What a caller can do with every method. `make_method` and `make_model_method` (laconic/methods.h) make them.
class Method {
 public:
  virtual ~Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  virtual const std::string& name() const = 0;
  virtual void set_nonfinite_policy(NonfinitePolicy policy) = 0;
  virtual std::uint64_t skipped_steps() const = 0;

  /// Tensors are exchanged in chunks of neighbours. A chunk is full when it has this many entries. Call it before
  /// register_tensors, with the same number on all ranks. Small chunks start early; large ones need fewer messages.
  virtual void set_chunk_entries(std::uint64_t entries) = 0;
  /// Names the tensors, once, before the first step. Collective: if names or sizes differ, all ranks throw.
  virtual void register_tensors(std::span<const Tensor> tensors) = 0;
  /// Whether tensors that are added early are exchanged while others are still missing. False if the method needs the
  /// whole gradient first, or if it is one chunk.
  virtual bool streams() const = 0;
  /// The first tensor of each chunk, ascending. Laying a chunk's tensors one after another saves a copy.
  virtual std::vector<std::uint32_t> chunk_starts() const = 0;
  /// Within a step: hands over tensors whose gradients have arrived, in any partition and order, which may differ
  /// between ranks. Starts the exchange of what is ready and does not wait. If it throws InvalidConfig, it has added
  /// nothing of its list.
  virtual void add(std::span<const TensorPart> parts) = 0;
  /// Within a step: advances exchanges in flight, as add does, without waiting. Returns how many entries of this step
  /// have their aggregate.
  virtual std::uint64_t poll() = 0;

  /// This rank's memory. A run that loads it continues bit for bit. An asynchronous run is saved after the same round
  /// on every rank (set_after_round) and before any rank goes on; otherwise it throws InvalidConfig.
  virtual State save() const = 0;
  /// Throws InvalidConfig, and changes nothing, for a state of another method, rank, number of ranks or setting, for
  /// missing or unknown entries, for impossible counts and indices, and within a step. Settings that do not change the
  /// meaning of the memory may differ: `route`, `order`, `diagnose`, `read`, `total_steps` of round methods and, at a
  /// round, `pace`; also learning rates, threads and the non-finite policy, which are no settings of a method.
  virtual void load(const State& state) = 0;
  /// Throws what load would throw, and loads nothing.
  virtual void require_loadable(const State& state) const = 0;
  /// Changes the group of ranks. Collective over old and new ranks: each old rank calls it, with null if it leaves; each
  /// newcomer makes the method on a communicator of one rank, registers the same tensors and calls it. The mean of the
  /// residuals is kept, RegTop-k forgets its support, and a newcomer to a round method starts at the centre. Afterwards
  /// a model method is started again on every rank.
  virtual void resize(Communicator* next) = 0;
  /// ℓ2 norm of this rank's residual; 0 for methods without one. Reads the memory once.
  virtual double residual_norm() = 0;

 protected:
  Method() = default;
};

/// Turns this worker's gradient into the aggregate of all workers.
class GradientMethod : public Method {
 public:
  /// One step on a flat view of all tensors. Without registered tensors it is one tensor, "gradient".
  virtual StepReport reduce(StepKey key, GradientView gradient) = 0;

  /// The same step while the gradient arrives: begin, add, finish. finish waits for all; the views then hold the
  /// aggregate, and only then does the step count.
  virtual void begin(StepKey key) = 0;
  virtual StepReport finish() = 0;
  /// The first half of finish, for callers whose methods must count a step together: waits for all and returns whether
  /// every value of every rank was finite. Then call finish, or abandon on all ranks: the step does not count, the
  /// memory is as it was, and the views are zero.
  virtual bool settle() = 0;
  virtual StepReport abandon() = 0;
};

/// Moves the model: decides where the next gradient is taken and when models meet. Every gradient method can be lifted
/// to one with an optimizer.
class ModelMethod : public Method {
 public:
  /// Opens the method for steps. Collective: every rank calls it once after the method was made, after each load and
  /// after each resize. Ranks compare what they must have in common; if they differ, all throw the same InvalidConfig,
  /// and start may be called again. `model` is the start point, or this rank's model as it was when the state was saved
  /// or the group changed; it ends as the point where the next gradient is taken.
  virtual StepReport start(View<float> model) = 0;

  /// `gradient` was taken at `model`, which ends as the point for the next one. `gradient` is scratch afterwards.
  virtual StepReport step(const StepInput& input, View<float> model, View<float> gradient) = 0;

  /// The same step while the gradient arrives, in any partition and order. The views are scratch afterwards. `model`
  /// keeps its values until finish_step.
  virtual void begin_step(const StepInput& input, View<float> model) = 0;
  virtual StepReport finish_step() = 0;

  /// Writes the point to test and save into `out`. Collective.
  virtual void read_out(View<const float> model, View<float> out) = 0;

  virtual void set_scoring(ScoringFunction scoring) = 0;
  /// Called after every round, within start or step, on all ranks at the same round, with what that call did so far.
  virtual void set_after_round(std::function<void(const StepReport&)> hook) = 0;
};

}  // namespace laconic
