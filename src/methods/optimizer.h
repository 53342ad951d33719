#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/interval.h"
#include "laconic/methods.h"

namespace laconic {

// The values that settings of an optimizer may have. Every place that takes one checks it against these.
inline constexpr Interval kMomentumRange{0.0, 1.0, "[)"};
inline constexpr Interval kWeightDecayRange{0.0, 1.0, "[)"};
inline constexpr Interval kShrinkRange{0.0, 1.0, "(]"};  ///< 1 − η·weight_decay of a decoupled weight decay
inline constexpr Interval kBetaRange{0.0, 1.0, "[)"};  ///< of Adam's beta1 and beta2
inline constexpr Interval kEpsilonRange{0.0, std::numeric_limits<double>::infinity(), "()"};
inline constexpr Interval kLearningRateRange{0.0, std::numeric_limits<double>::infinity(), "[)"};

enum class OptimizerKind : std::uint8_t { sgd, adam, adamw, host };

/// The names of the kinds, in their order. The last one, "host", is for an optimizer that a host brings.
std::span<const std::string_view> optimizer_names();

/// The kind that OptimizerOptions::name names. Throws InvalidConfig for an unknown name.
OptimizerKind optimizer_kind(std::string_view name);

/// Whether the kind keeps two moments and takes beta1, beta2 and epsilon.
constexpr bool is_adam(OptimizerKind kind) { return kind == OptimizerKind::adam || kind == OptimizerKind::adamw; }

/// Whether the weight decay of these options applies to a tensor.
inline bool decays(const OptimizerOptions& options, const Tensor& tensor) {
  return tensor.matrix || options.weight_decay_on == "all";
}

/// Updates a model along a direction, with SGD (momentum, optionally Nesterov's, and weight decay), Adam with bias
/// correction, Adam with decoupled weight decay (adamw), or a host's own optimizer, which it calls. The updates are the
/// same, operation for operation, as the kernels in kernels/descent, without fused operations.
class Optimizer {
 public:
  /// Throws InvalidConfig for an unknown name or a setting out of range.
  explicit Optimizer(OptimizerOptions options);

  void prepare(Place& place, std::uint64_t parameters);
  /// For these tensors, of which the weight decay may leave some out.
  void prepare(Place& place, std::span<const Tensor> tensors);
  void step(Place& place, float learning_rate, View<const float> gradient, View<float> model);
  /// The same step in parts, for optimizers other than a host's: first count_step, then each part of the model once.
  void count_step() { ++steps_; }
  void step_part(Place& place, float learning_rate, std::uint64_t offset, View<const float> gradient,
                 View<float> model);
  /// A part of the step that `from` would make, with its memory left as it is: this optimizer, which has the same
  /// settings, receives the moments, and `after` the model. First take_step_of.
  void try_part(Place& place, float learning_rate, std::uint64_t offset, View<const float> gradient,
                const Optimizer& from, View<const float> before, View<float> after);
  void take_step_of(const Optimizer& from) { steps_ = from.steps_ + 1; }
  /// The factor by which a step multiplies what the weight decay applies to, apart from the gradient: 1 − η·weight_decay
  /// of adamw, otherwise 1.
  float shrink(float learning_rate) const;

  /// Copies the memory of another optimizer with the same settings.
  void copy_from(Place& place, const Optimizer& other);

  void save(Place& place, State& state) const;
  void load(Place& place, const State& state);
  /// For a state with the entries that save makes. Throws InvalidConfig if its number of steps is not a valid count.
  static void require_loadable(const State& state) { state.count("steps"); }
  /// Its memory, which is the same on all ranks if its directions are.
  std::vector<View<float>> memory() const;

  /// Number of steps made, which Adam's bias correction needs. A newcomer to a run takes it over.
  std::uint64_t steps() const { return steps_; }
  void set_steps(std::uint64_t steps) { steps_ = steps; }

  const OptimizerOptions& options() const { return options_; }
  bool is_host() const { return kind_ == OptimizerKind::host; }

 private:
  /// Neighbouring tensors that the weight decay applies to, or does not.
  struct Run {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool decays = true;
  };
  /// Calls work(run) for the parts of a range that have the same weight decay.
  template <class Work>
  void each_run(std::uint64_t offset, std::uint64_t size, const Work& work) const;

  OptimizerOptions options_;
  OptimizerKind kind_;
  std::vector<Run> runs_;  ///< of the model; empty: it applies to everything
  std::uint64_t steps_ = 0;
  Buffer<float> first_;   ///< momentum, or Adam's first moment
  Buffer<float> second_;  ///< Adam's second moment
};

}  // namespace laconic
