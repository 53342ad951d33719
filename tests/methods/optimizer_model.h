#pragma once

#include <algorithm>
#include <cmath>

#include "laconic/methods.h"

namespace laconic::test {

/// One parameter in float64. `travelled` adds up the lengths of its steps as if no two terms had cancelled, which is
/// what rounding is measured against.
struct OptimizerModel {
  double x = 0.0;
  double first = 0.0;
  double second = 0.0;
  double first_magnitude = 0.0;
  double largest = 0.0;
  double travelled = 0.0;

  void move(double rate, double direction, double magnitude) {
    x -= rate * direction;
    largest = std::max(largest, std::fabs(x));
    travelled += rate * magnitude;
  }

  /// Sutskever et al. 2013 as PyTorch writes it: v = m·v + g, and x -= η·v, or x -= η·(g + m·v).
  void sgd_step(const OptimizerOptions& options, double rate, double gradient) {
    const double direction = gradient + options.weight_decay * x;
    if (options.momentum == 0.0) return move(rate, direction, std::fabs(direction));
    first = options.momentum * first + direction;
    first_magnitude = options.momentum * first_magnitude + std::fabs(direction);
    if (!options.nesterov) return move(rate, first, first_magnitude);
    move(rate, direction + options.momentum * first, std::fabs(direction) + options.momentum * first_magnitude);
  }

  /// Kingma, Ba 2015, algorithm 1, with weight decay as part of the gradient; t counts from 1.
  void adam_step(const OptimizerOptions& options, int t, double rate, double gradient) {
    const double direction = gradient + options.weight_decay * x;
    first = options.beta1 * first + (1.0 - options.beta1) * direction;
    first_magnitude = options.beta1 * first_magnitude + (1.0 - options.beta1) * std::fabs(direction);
    second = options.beta2 * second + (1.0 - options.beta2) * direction * direction;
    const double correction = 1.0 - std::pow(options.beta1, t);
    const double root = std::sqrt(second / (1.0 - std::pow(options.beta2, t))) + options.epsilon;
    move(rate, first / correction / root, first_magnitude / correction / root);
  }

  /// Loshchilov, Hutter 2019: the model shrinks by η·weight_decay, and Adam sees the gradient alone.
  void adamw_step(OptimizerOptions options, int t, double rate, double gradient) {
    x *= 1.0 - rate * options.weight_decay;
    options.weight_decay = 0.0;
    adam_step(options, t, rate, gradient);
  }

  void step(const OptimizerOptions& options, int t, double rate, double gradient) {
    if (options.name == "adamw") return adamw_step(options, t, rate, gradient);
    if (options.name == "adam") return adam_step(options, t, rate, gradient);
    sgd_step(options, rate, gradient);
  }
};

}  // namespace laconic::test
