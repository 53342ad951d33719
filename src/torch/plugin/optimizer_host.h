#pragma once

#include <functional>
#include <limits>

#include "torch/plugin/device_place.h"
#include "torch/plugin/own_process.h"
#include "torch/plugin/parameter_set.h"
#include "transport/agreement.h"

namespace laconic::plugin {

/// What a training loop passes with each step.
struct HostStepInput {
  float loss = std::numeric_limits<float>::quiet_NaN();  ///< this worker's loss, which lsgd needs
  float factor = 1.0F;                                   ///< gradients are multiplied by it
  bool skips = false;                                    ///< a non-finite value drops the step under either policy
  /// One number on a device, or undefined. Gradients are multiplied by it there: one over a loss scale. The caller's
  /// thread does not wait for it.
  at::Tensor scaling{};
  std::span<const Coefficients> groups{};  ///< one per group of parameters, for methods that are SGD themselves
  /// One per group of parameters, for methods that send the steps of the loop's optimizer: the factor of its decoupled
  /// weight decay in this step (StepInput::shrink). Empty: 1 for all.
  std::span<const float> shrink{};
};

/// What one step, or all steps, cost on this rank.
struct StepCosts {
  std::uint64_t dense_bytes = 0;  ///< size of all parameters as float32
  Traffic traffic;
  double select_seconds = 0.0;
  double copy_seconds = 0.0;  ///< copying parameters and gradients to float32 and back
  double host_seconds = 0.0;  ///< the loop's own optimizer, if the method calls it
  double step_seconds = 0.0;  ///< the whole of step

  StepCosts& operator+=(const StepCosts& other);
};

struct OptimizerMetrics {
  // Of the whole run, including steps before it was resumed.
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

/// Runs a method as an optimizer around a training loop's own optimizer. Everything runs in the caller's thread; on a
/// device, after the work of the caller's stream and before what that stream is given later. If one rank fails, the
/// others throw TransportError. In a fork of the process every call throws InvalidConfig, and the host must not be
/// destroyed.
class OptimizerHost {
 public:
  /// Collective. First it gives all ranks the same parameters. Methods use the communicator; calls that must not match
  /// those of a step use a duplicate, so that a rank which reads out while others step waits for them.
  OptimizerHost(std::shared_ptr<Communicator> communicator, Workplace work, std::uint64_t seed,
                ParameterSet parameters);
  virtual ~OptimizerHost() = default;
  OptimizerHost(const OptimizerHost&) = delete;
  OptimizerHost& operator=(const OptimizerHost&) = delete;

  /// In a fork of the process that made this object, throws an InvalidConfig that names the call.
  void require_own_process(const char* call) const { process_.require(call, "an optimizer"); }

  /// If the ranks' fields differ, throws an InvalidConfig that names rank and field on all ranks. Collective, like a
  /// step.
  void agree(std::span<const AgreedField> fields);
  /// Gives every rank the values of rank 0. Any type is allowed. Collective.
  void broadcast(const std::vector<at::Tensor>& tensors);
  /// Gives every rank the mean of all ranks' values, summed in rank order in float32. Collective.
  void average(const std::vector<at::Tensor>& tensors);

  /// As ParameterSet::follow, before a step.
  void follow(std::vector<at::Tensor> parameters, std::vector<bool> trained) {
    parameters_.follow(std::move(parameters), std::move(trained));
  }
  /// Returns false if the step was dropped; then nothing has changed except the number of steps.
  bool step(const HostStepInput& input);
  /// Whether a round method with a fixed number of steps has made them all.
  bool finished() const { return finished_; }

  /// Replaces the parameters by the point to test and save; leaving restores them bit for bit. Entering is collective:
  /// a rank that enters alone throws TransportError after the communicator's timeout.
  void enter_read_out();
  void leave_read_out();
  bool reads_out() const { return reads_out_; }

  /// This rank's memory between steps, including its parameters if they differ between ranks.
  State save();
  /// Collective. If one rank rejects its state, all throw, and nothing has changed on any. `refusal` is the reason if
  /// this rank has nothing to load.
  void load(const State& state, std::string refusal = {});
  /// Continues with another number of ranks from the states of all old ranks; their residuals are redistributed
  /// (redeal.h). Collective, like load.
  void redeal(const std::vector<State>& saved, std::string refusal = {});
  /// Reports to the other ranks that this rank cannot go on.
  void fail(const std::string& reason) { communicator_->fail(reason); }

  OptimizerMetrics metrics();
  int rank() const { return communicator_->rank(); }
  int ranks() const { return communicator_->size(); }
  /// Why parameters on a device are worked on in CPU memory; empty if they are not.
  const std::string& reason_for_cpu() const { return work_.reason; }

 protected:
  /// The implementation counts its own rounds.
  virtual StepReport do_step(const HostStepInput& input) = 0;
  virtual void do_enter_read_out() {}
  virtual void do_leave_read_out() {}
  virtual void do_save(State& state) = 0;
  /// Changes nothing and is not collective. Throws if the state does not fit; otherwise returns the function to call
  /// once every rank has accepted its own state. The state lives until then.
  using Change = std::function<void()>;
  virtual Change prepare_load(const State& state) = 0;
  virtual Change prepare_redeal(const std::vector<State>& saved) = 0;
  /// Called after the change. Collective if a method starts again.
  virtual void do_go_on() {}
  virtual double residual_norm() = 0;
  virtual std::string method() const = 0;
  /// Whether all ranks make the same number of steps.
  virtual bool in_lockstep() const { return true; }

  Communicator& communicator() { return *communicator_; }
  Communicator& side() { return *side_; }
  Place& place() { return *work_.place; }
  const std::optional<c10::Stream>& stream() const { return work_.stream; }
  ParameterSet& parameters() { return parameters_; }
  /// The key of the current step.
  StepKey key() const { return {seed_, step_ - 1, static_cast<std::uint32_t>(rank())}; }
  /// For the start of a method, which may join the last round.
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
  Workplace work_;
  ParameterSet parameters_;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;  ///< number of steps begun
  bool finished_ = false;
  bool reads_out_ = false;
  OptimizerMetrics metrics_;
};

}  // namespace laconic::plugin
