#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/interval.h"
#include "laconic/methods.h"

namespace laconic {

// The values that settings of an optimizer may have. Every place that takes one checks it against these.
inline constexpr Interval kMomentumRange{0.0, 1.0, "[)"};
inline constexpr Interval kWeightDecayRange{0.0, 1.0, "[)"};
inline constexpr Interval kBetaRange{0.0, 1.0, "[)"};  ///< of Adam's beta1 and beta2
inline constexpr Interval kEpsilonRange{0.0, std::numeric_limits<double>::infinity(), "()"};
inline constexpr Interval kLearningRateRange{0.0, std::numeric_limits<double>::infinity(), "[)"};

enum class OptimizerKind : std::uint8_t { sgd, adam, host };

/// The kind that OptimizerOptions::name names. Throws InvalidConfig for an unknown name.
OptimizerKind optimizer_kind(std::string_view name);

/// Updates a model along a direction, with SGD (momentum, optionally Nesterov's, and weight decay), Adam with bias
/// correction, or a host's own optimizer, which it calls. The updates are the same, operation for operation, as the
/// kernels in kernels/descent, without fused operations.
class Optimizer {
 public:
  /// Throws InvalidConfig for an unknown name or a setting out of range.
  explicit Optimizer(OptimizerOptions options);

  void prepare(Place& place, std::uint64_t parameters);
  void step(Place& place, float learning_rate, View<const float> gradient, View<float> model);

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

 private:
  OptimizerOptions options_;
  OptimizerKind kind_;
  std::uint64_t steps_ = 0;
  Buffer<float> first_;   ///< momentum, or Adam's first moment
  Buffer<float> second_;  ///< Adam's second moment
};

}  // namespace laconic
