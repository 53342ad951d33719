#pragma once

#include <functional>

#include "laconic/methods.h"
#include "methods/table.h"
#include "torch/plugin/optimizer_host.h"

namespace laconic::plugin {

/// Functions of the training loop that a method calls, in the thread that calls step.
struct HostCalls {
  /// Makes a step of the loop's own optimizer with the gradients of the parameters. Empty for methods that are SGD
  /// themselves (Traits::is_sgd), and only for these.
  std::function<void()> optimizer{};
  /// Computes the gradients of the parameters on the batch that all workers share in this round. The parameters have no
  /// gradients before the call.
  std::function<void(std::uint32_t round)> scoring{};
  /// Called after every round, on all ranks at the same round, with the parameters as the round left them.
  std::function<void()> after_round{};
};

/// A model method around a training loop's own optimizer. Between steps the parameters are the point where the next
/// gradient is taken. ef-rbgs, def and def-a are SGD themselves and update that point. For the other methods the loop's
/// optimizer updates the parameters, and the method combines the models, or the steps, of all workers.
class ModelHost final : public OptimizerHost {
 public:
  /// Collective. Reads the start point, which must be the same on all ranks. Throws InvalidConfig for calls that do not
  /// fit the method.
  ModelHost(std::shared_ptr<Communicator> communicator, Workplace work, std::uint64_t seed, ParameterSet parameters,
            std::string_view method, const MethodOptions& options, HostCalls calls,
            NonfinitePolicy policy = NonfinitePolicy::error);
  ~ModelHost() override;

  /// The index in HostStepInput::groups of each parameter. If it is not called, all belong to the first group.
  void set_groups(std::vector<std::uint32_t> group_of_parameter);

 private:
  StepReport do_step(const HostStepInput& input) override;
  void do_enter_read_out() override;
  void do_leave_read_out() override;
  void do_save(State& state) override;
  Change prepare_load(const State& state) override;
  Change prepare_redeal(const std::vector<State>& saved) override;
  double residual_norm() override { return method_->residual_norm(); }
  std::string method() const override { return name_; }
  bool in_lockstep() const override { return !async_; }

  void do_go_on() override;

  bool is_sgd() const { return traits_.is_sgd; }
  /// Whether the method keeps the common point itself: the parameters are that point with the rank's own error in it.
  bool keeps_point() const { return traits_.common == Common::point; }
  /// Whether every step changes the parameters in addition to the loop's optimizer.
  bool moves_every_step() const { return !traits_.meets_in_rounds || traits_.pulls_every_step; }
  void require_fitting_calls() const;
  OptimizerOptions optimizer_options();
  std::vector<float> dealt_model(const std::vector<State>& saved, const State& mine) const;
  void take_coefficients(std::span<const Coefficients> groups);
  void refresh_model();
  void write_model();
  void move(View<float> model);
  void score(View<float> gradient);
  void after_round();

  View<float> model() const { return model_.view(size_); }
  View<float> gradient() const { return gradient_.view(size_); }

  std::string name_;
  const Traits& traits_;
  MethodOptions options_;
  HostCalls calls_;
  NonfinitePolicy policy_;
  bool async_;
  std::uint64_t size_;
  std::vector<std::uint32_t> group_of_;
  std::vector<Coefficients> coefficients_;
  std::unique_ptr<ModelMethod> method_;
  Buffer<float> model_;
  Buffer<float> gradient_;
  Buffer<float> kept_;  ///< copy of the parameters while they are replaced by others
};

}  // namespace laconic::plugin
