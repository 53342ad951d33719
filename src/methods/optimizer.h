#pragma once

#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "laconic/methods.h"

namespace laconic {

enum class OptimizerKind : std::uint8_t { sgd, adam, host };

/// Of OptimizerOptions::name. Throws InvalidConfig for an unknown name.
OptimizerKind optimizer_kind(std::string_view name);

/// Moves a model along a direction: SGD with momentum, Nesterov's or not, and weight decay; or Adam, bias-corrected; or
/// the host's own, which is called. The same updates, operation for operation, as the reference loops in optimizer.cpp;
/// no fused operation.
class Optimizer {
 public:
  /// InvalidConfig for an unknown name or a setting out of range.
  explicit Optimizer(OptimizerOptions options);

  void prepare(Place& place, std::uint64_t parameters);
  void step(Place& place, float learning_rate, View<const float> gradient, View<float> model);

  /// Becomes what the other one is: its settings must be the same.
  void copy_from(Place& place, const Optimizer& other);

  void save(Place& place, State& state) const;
  void load(Place& place, const State& state);
  /// Of what has the entries that save makes: InvalidConfig for a count of steps that is none.
  static void require_loadable(const State& state) { state.count("steps"); }
  /// Its memory, the same on all ranks where its directions are.
  std::vector<View<float>> memory() const;

  /// Steps made, which Adam's bias correction counts: a newcomer to a run takes them over.
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
