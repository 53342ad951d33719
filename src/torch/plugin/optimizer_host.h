#pragma once

#include <functional>
#include <limits>

#include "torch/plugin/own_process.h"
#include "torch/plugin/parameter_set.h"
#include "transport/agreement.h"

namespace laconic::plugin {

/// What a training loop says with each step.
struct HostStepInput {
  float loss = std::numeric_limits<float>::quiet_NaN();  ///< this worker's, which lsgd asks for
  float factor = 1.0F;                                   ///< that gradients are multiplied with: one over a loss scale
  bool skips = false;                                    ///< a non-finite value drops the step, whatever the policy
  std::span<const Coefficients> groups{};  ///< one a group of parameters, for methods that are SGD themselves
};

/// What a step cost, or all of them, on this rank.
struct StepCosts {
  std::uint64_t dense_bytes = 0;  ///< what float32 values of all parameters would be
  Traffic traffic;
  double select_seconds = 0.0;
  double copy_seconds = 0.0;  ///< parameters and gradients into float32 and back
  double host_seconds = 0.0;  ///< the loop's own optimizer, where the method calls it
  double step_seconds = 0.0;  ///< all of step

  StepCosts& operator+=(const StepCosts& other);
};

struct OptimizerMetrics {
  // Of the whole run, also if it was resumed.
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  std::uint64_t rounds = 0;
  // Of the last step.
  double bits = 0.0;
  double extra = 0.0;  ///< the method's own diagnostic
  double residual_norm = 0.0;
  StepCosts last;
  StepCosts total;  ///< since the host was made
};

/// Runs a method for a training loop that steps by itself: an optimizer around the loop's own. Everything happens in
/// the caller's thread. A failure on one rank is told to the others, which end with a TransportError. In a fork of the
/// process every call is an InvalidConfig, and the host must not be destroyed.
class OptimizerHost {
 public:
  /// Collective; begins with the parameters' common start. Methods get the communicator; a duplicate of it is for calls
  /// that must not meet those of a step, so that a rank which reads out while others step waits there.
  OptimizerHost(std::shared_ptr<Communicator> communicator, int threads, std::uint64_t seed, ParameterSet parameters);
  virtual ~OptimizerHost() = default;
  OptimizerHost(const OptimizerHost&) = delete;
  OptimizerHost& operator=(const OptimizerHost&) = delete;

  /// InvalidConfig that names the call, in a fork of the process that made this.
  void require_own_process(const char* call) const { process_.require(call, "an optimizer"); }

  /// InvalidConfig on all ranks, which names rank and field, unless all came with the same. Collective, as a step is.
  void agree(std::span<const AgreedField> fields);
  /// Every rank ends with rank 0's values, of whatever type. Collective.
  void broadcast(const std::vector<at::Tensor>& tensors);
  /// Every rank ends with the mean of all ranks' values, summed in rank order in float32. Collective.
  void average(const std::vector<at::Tensor>& tensors);

  /// False: the step was dropped, and nothing moved but the count.
  bool step(const HostStepInput& input);
  /// A round method that was told its steps has made them all.
  bool finished() const { return finished_; }

  /// The parameters become the point to test and save, and again what they were, to the bit. Entering is collective: a
  /// rank that enters alone gets a TransportError when the communicator's timeout has passed.
  void enter_read_out();
  void leave_read_out();
  bool reads_out() const { return reads_out_; }

  /// This rank's memory between steps, with its parameters where they are its own.
  State save();
  /// Collective: what one rank refuses, all do, and nothing has changed on any. `refusal`: why this rank has nothing to
  /// load, if so.
  void load(const State& state, std::string refusal = {});
  /// Goes on with another number of ranks, from the states of all ranks that there were: what they owed is dealt anew
  /// (redeal.h). Collective, as load is.
  void redeal(const std::vector<State>& saved, std::string refusal = {});
  /// Tells the others that this rank cannot go on.
  void fail(const std::string& reason) { communicator_->fail(reason); }

  OptimizerMetrics metrics();
  int rank() const { return communicator_->rank(); }
  int ranks() const { return communicator_->size(); }

 protected:
  /// Counts its rounds itself.
  virtual StepReport do_step(const HostStepInput& input) = 0;
  virtual void do_enter_read_out() {}
  virtual void do_leave_read_out() {}
  virtual void do_save(State& state) = 0;
  /// Changes nothing and is not collective: throws where the state does not fit, else tells what is to be done once
  /// every rank has accepted its own. The state lives until then.
  using Change = std::function<void()>;
  virtual Change prepare_load(const State& state) = 0;
  virtual Change prepare_redeal(const std::vector<State>& saved) = 0;
  /// After the change. Collective where a method starts again.
  virtual void do_go_on() {}
  virtual double residual_norm() = 0;
  virtual std::string method() const = 0;
  /// Whether all ranks make as many steps.
  virtual bool in_lockstep() const { return true; }

  Communicator& communicator() { return *communicator_; }
  Communicator& side() { return *side_; }
  Place& place() { return place_; }
  ParameterSet& parameters() { return parameters_; }
  /// Of the step that is being made.
  StepKey key() const { return {seed_, step_ - 1, static_cast<std::uint32_t>(rank())}; }
  /// Of a method's start, which may join the last round.
  void set_finished(bool finished) { finished_ = finished; }
  OptimizerMetrics& counted() { return metrics_; }
  StepCosts& costs() { return metrics_.last; }

 private:
  void require_same_tensors();
  void require_fitting(const State& state, int rank, int ranks) const;
  void take(const std::function<Change()>& prepare, const State* counted, std::string refusal);

  OwnProcess process_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> side_;
  Place place_;
  ParameterSet parameters_;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;  ///< that were begun
  bool finished_ = false;
  bool reads_out_ = false;
  OptimizerMetrics metrics_;
};

}  // namespace laconic::plugin
