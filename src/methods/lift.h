#pragma once

#include "methods/gradient_base.h"
#include "methods/model_base.h"
#include "methods/optimizer.h"

namespace laconic {

/// A gradient method as a model method: the optimizer steps along the aggregate, so all ranks hold the same model.
class LiftedMethod : public ModelBase {
 public:
  /// `guard`: RegTop-k's step guard. At first dev = 1e5. If ‖θ_new − θ_old‖² >= dev, the step is undone together with
  /// the optimizer's moments, but not the error memory. Otherwise dev becomes 100·‖step‖², unless the step has length
  /// zero. Throws InvalidConfig for a guard with a host's optimizer, because it cannot restore that optimizer's
  /// moments.
  LiftedMethod(std::unique_ptr<GradientBase> inner, const OptimizerOptions& optimizer, bool guard,
               Communicator& communicator, Place& place);

  double residual_norm() override { return inner_->residual_norm(); }
  bool streams() const override { return inner_->streams(); }
  std::vector<std::uint32_t> chunk_starts() const override { return inner_->chunk_starts(); }
  std::uint64_t poll() override { return inner_->poll(); }

 private:
  void prepare() override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> shared() override { return optimizer_.memory(); }
  std::vector<double> shared_numbers() const override;
  void take_numbers(std::span<const double> numbers) override;
  void regrouped() override {}
  void do_resize(Communicator* next) override;

  StepReport do_start(View<float> model) override;
  void do_begin(const StepInput& input, View<const float> model) override;
  void do_add(View<float> gradient) override { inner_->exchange().add(gradient); }
  void do_add(std::span<const TensorPart> parts) override { inner_->exchange().add(parts); }
  void do_finish() override;
  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override;

  void guarded_step(float learning_rate, View<float> model, View<const float> gradient);

  std::unique_ptr<GradientBase> inner_;
  Optimizer optimizer_;
  bool guard_;
  StepReport report_;
  double largest_step_ = 1e5;
  Buffer<float> before_;        ///< the guard's
  Optimizer optimizer_before_;  ///< the guard's
};

}  // namespace laconic
