#pragma once

#include <functional>
#include <vector>

#include "methods/flat_gradient.h"
#include "methods/method_base.h"
#include "methods/open_step.h"

namespace laconic {

/// What model methods share: start with its comparison between ranks, and steps whose gradient arrives whole or tensor
/// by tensor.
class ModelBase : public MethodBase<ModelMethod> {
 public:
  StepReport start(View<float> model) final;
  StepReport step(const StepInput& input, View<float> model, View<float> gradient) final;
  void begin_step(const StepInput& input, View<float> model) final;
  void add(std::span<const TensorPart> parts) final;
  StepReport finish_step() final;
  void read_out(View<const float> model, View<float> out) final;
  void set_scoring(ScoringFunction scoring) final { scoring_ = std::move(scoring); }
  void set_after_round(std::function<void(const StepReport&)> hook) final { after_round_ = std::move(hook); }

 protected:
  ModelBase(std::string name, Communicator& communicator, Place& place, ChunkedStep* chunked = nullptr)
      : MethodBase(std::move(name), communicator, place, chunked), step_(this->name(), "begin_step()", "finish_step()") {
  }

  /// After start has compared. stage() says where the run comes from.
  virtual StepReport do_start(View<float> model) = 0;
  /// What all ranks must have in common at a start: by default the model.
  virtual std::vector<AgreedField> common_fields(View<const float> model);
  /// For common_fields.
  AgreedField checksum_field(const std::string& what, View<const float> values);

  /// What a method does before the whole gradient is there: nothing, unless it streams.
  virtual void do_begin(const StepInput& /*input*/, View<const float> /*model*/) {}
  virtual void do_add(View<float> /*gradient*/) {}
  virtual void do_add(std::span<const TensorPart> /*parts*/) {}
  /// Waits for what do_add started.
  virtual void do_finish() {}
  /// The gradient is there, flat, as do_add and do_finish left it.
  virtual StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) = 0;
  virtual void do_read_out(View<const float> model, View<float> out) = 0;
  /// For do_read_out of methods whose models differ: the mean of all ranks' models. Collective.
  void average_models(View<const float> model, View<float> mean);

  /// Whether StepInput::tensors is for it.
  virtual bool takes_coefficients() const { return false; }

  const ScoringFunction& scoring() const { return scoring_; }
  void tell_round(const StepReport& report) const {
    if (after_round_) after_round_(report);
  }

 private:
  void require_between_steps() const final { step_.require_loadable(); }
  void require_started() const;
  void require_input(const StepInput& input, View<const float> model) const;
  void require_coefficients(std::span<const Coefficients> given) const;
  void begin_checked(const StepInput& input, View<float> model);

  ScoringFunction scoring_;
  std::function<void(const StepReport&)> after_round_;
  OpenStep step_;
  StepInput input_;
  View<float> model_;
  FlatGradient gradient_;  ///< of a step whose tensors arrive one by one
};

}  // namespace laconic
