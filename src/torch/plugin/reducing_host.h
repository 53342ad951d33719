#pragma once

#include "torch/plugin/method_set.h"
#include "torch/plugin/optimizer_host.h"

namespace laconic::plugin {

/// Gradient methods before a training loop's own optimizer. A step replaces the gradients of the parameters, in place,
/// by the aggregate; then the loop's optimizer steps, unless the step was dropped. All ranks have the same parameters,
/// so reading out changes nothing.
class ReducingHost final : public OptimizerHost {
 public:
  /// Collective. The seed comes from the options.
  ReducingHost(std::shared_ptr<Communicator> communicator, Workplace work, ParameterSet parameters,
               std::vector<MethodGroup> groups, const MethodSetOptions& options);

 private:
  StepReport do_step(const HostStepInput& input) override;
  void do_save(State& state) override { state.put("methods", methods_.save()); }
  Change prepare_load(const State& state) override { return prepare(state.nested("methods")); }
  Change prepare_redeal(const std::vector<State>& saved) override;
  Change prepare(const State& methods);
  double residual_norm() override { return methods_.residual_norm(); }
  std::string method() const override { return "gradient methods"; }

  bool takes_16bit_;
  std::vector<MethodGroup> groups_;
  MethodSet methods_;
};

}  // namespace laconic::plugin
