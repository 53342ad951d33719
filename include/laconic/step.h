#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "laconic/coefficients.h"
#include "laconic/gradient_view.h"
#include "laconic/key.h"
#include "laconic/traffic.h"
#include "laconic/view.h"

namespace laconic {

/// A tensor as a method knows it. In a flat view, tensors lie one after another in the order of registration.
struct Tensor {
  std::string name;
  std::uint64_t size = 0;
  bool matrix = true;  ///< true if the tensor has two or more dimensions, or if the number is unknown
};

/// A tensor's gradient that has arrived. The method uses the view until the step is finished.
struct TensorPart {
  std::uint32_t tensor = 0;  ///< index in registration order
  GradientView values;       ///< the whole tensor
};

/// What one step did, on this rank.
struct StepReport {
  bool skipped = false;      ///< dropped on all ranks because a value was not finite; the memory is as it was
  bool undone = false;       ///< RegTop-k's step guard restored model and optimizer; the residual has changed
  bool finished = false;     ///< round methods with total_steps: this was the last step, so call no further one
  std::uint32_t rounds = 0;  ///< model methods: rounds in which this rank took part; 1 for a lifted method's step
  Traffic traffic;
  Traffic within;  ///< on two levels what stays inside the machine, and `traffic` is what leaves it; otherwise nothing
  double select_seconds = 0.0;  ///< adding the residual, selecting, scoring
  double bits = 0.0;            ///< quantizers: bits per entry
  double extra = 0.0;           ///< the method's own diagnostic, named by its row in the table
};

enum class NonfinitePolicy : std::uint8_t { error, skip };

/// One step's settings, which may change from step to step.
struct StepInput {
  StepKey key;
  float learning_rate = 0.0F;
  /// This worker's training loss at the point where the gradient was taken. lsgd needs it and rejects a NaN.
  float loss = std::numeric_limits<float>::quiet_NaN();
  /// For methods that are SGD themselves: one entry per tensor, used in place of learning_rate and the method's
  /// momentum and weight_decay. Empty: the same values for all tensors. The span must live until the step has begun.
  std::span<const Coefficients> tensors{};
  /// For methods that send the steps of a host's optimizer: per tensor, the factor of decoupled weight decay in this
  /// step: 1 − learning rate · decay, or 1 (without AdamW's kind of decay). The method does not send this part of the
  /// step, so the factors must be the same on all ranks. Empty: 1 for all tensors. The span must live until the step has
  /// begun.
  std::span<const float> shrink{};
};

/// Computes the flat gradient at `model` on the batch that all workers share in this round.
using ScoringFunction = std::function<void(View<const float> model, View<float> gradient)>;

}  // namespace laconic
