#pragma once

#include <functional>
#include <vector>

#include "methods/flat_gradient.h"
#include "methods/method_base.h"

namespace laconic {

/// What model methods share: start, with its comparison between ranks, and steps whose gradient arrives at once or
/// tensor by tensor.
class ModelBase : public MethodBase<ModelMethod> {
 public:
  StepReport start(View<float> model) final;
  StepReport step(const StepInput& input, View<float> model, View<float> gradient) final;
  void begin_step(const StepInput& input, View<float> model) final;
  StepReport finish_step() final;
  void read_out(View<const float> model, View<float> out) final;
  void set_scoring(ScoringFunction scoring) final { scoring_ = std::move(scoring); }
  void set_after_round(std::function<void(const StepReport&)> hook) final { after_round_ = std::move(hook); }

 protected:
  ModelBase(std::string name, Communicator& communicator, Place& place, ChunkedStep* chunked = nullptr)
      : MethodBase(std::move(name), communicator, place, chunked, "begin_step()", "finish_step()") {}

  /// Called after start has compared the ranks. phase() distinguishes a new run from a loaded or resized one.
  virtual StepReport do_start(View<float> model) = 0;
  /// What must be the same on all ranks at the start: by default the model.
  virtual std::vector<AgreedField> common_fields(View<const float> model);
  /// For common_fields.
  AgreedField checksum_field(const std::string& what, View<const float> values);

  /// What a method does before the whole gradient has arrived: nothing, unless it streams.
  virtual void do_begin(const StepInput& /*input*/, View<const float> /*model*/) {}
  virtual void do_add(View<float> /*gradient*/) {}
  virtual void do_add(std::span<const TensorPart> /*parts*/) {}
  /// Waits for what do_add started.
  virtual void do_finish() {}
  /// Called when the flat gradient is complete, as do_add and do_finish left it.
  virtual StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) = 0;
  virtual void do_read_out(View<const float> model, View<float> out) = 0;
  /// For do_read_out of methods whose models differ: the mean of all ranks' models. Collective.
  void average_models(View<const float> model, View<float> mean);

  /// Whether the method uses StepInput::tensors.
  virtual bool takes_coefficients() const { return false; }

  /// Whether the method uses StepInput::shrink.
  virtual bool takes_shrink() const { return false; }

  /// Where the gradient of the step was taken.
  View<const float> model() const { return model_; }
  const ScoringFunction& scoring() const { return scoring_; }
  void tell_round(const StepReport& report) const {
    if (after_round_) after_round_(report);
  }

 private:
  void add_to_step(std::span<const TensorPart> parts) final { do_add(gradient_.add(place(), parts)); }
  void require_started() const;
  void require_input(const StepInput& input, View<const float> model) const;
  void require_coefficients(std::span<const Coefficients> given) const;
  void require_shrink(std::span<const float> given) const;
  void begin_checked(const StepInput& input, View<float> model);

  ScoringFunction scoring_;
  std::function<void(const StepReport&)> after_round_;
  StepInput input_;
  View<float> model_;
  FlatGradient gradient_;  ///< of a step whose tensors arrive one by one
};

}  // namespace laconic
