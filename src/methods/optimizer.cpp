#include "methods/optimizer.h"

#include <cmath>

#include "base/check.h"
#include "base/thread_pool.h"
#include "laconic/error.h"

namespace laconic {
namespace {

void require_range(const char* name, double value, double low, double high) {
  if (value >= low && value < high) return;
  throw InvalidConfig(std::string("optimizer: ") + name + " must be in [" + std::to_string(low) + ", " +
                      std::to_string(high) + "), got " + std::to_string(value));
}

enum class Momentum : std::uint8_t { none, plain, nesterov };

struct SgdStep {
  float learning_rate;
  float momentum;
  float decay;
};

// Loops without a branch, which compilers turn into vectors.

template <bool kDecays, Momentum kMomentum>
void sgd_loop(const SgdStep& step, Range range, const float* gradient, float* model, float* first) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float direction = gradient[i];
    if constexpr (kDecays) direction = direction + step.decay * model[i];
    if constexpr (kMomentum != Momentum::none) {
      const float moment = step.momentum * first[i] + direction;
      first[i] = moment;
      direction = kMomentum == Momentum::nesterov ? direction + step.momentum * moment : moment;
    }
    model[i] = model[i] - step.learning_rate * direction;
  }
}

struct AdamStep {
  AdamStep(const OptimizerOptions& options, float rate, std::uint64_t steps)
      : learning_rate(rate),
        decay(static_cast<float>(options.weight_decay)),
        beta1(static_cast<float>(options.beta1)),
        beta2(static_cast<float>(options.beta2)),
        fresh1(static_cast<float>(1.0 - options.beta1)),
        fresh2(static_cast<float>(1.0 - options.beta2)),
        correction1(static_cast<float>(1.0 - std::pow(options.beta1, static_cast<double>(steps)))),
        correction2(static_cast<float>(1.0 - std::pow(options.beta2, static_cast<double>(steps)))),
        epsilon(static_cast<float>(options.epsilon)) {}

  float learning_rate;
  float decay;
  float beta1;
  float beta2;
  float fresh1;  ///< 1 − β, taken in float64: 1 − 0.999 in float32 is off by 1e-5 of itself, and every step with it
  float fresh2;
  float correction1;
  float correction2;
  float epsilon;
};

template <bool kDecays>
void adam_loop(const AdamStep& step, Range range, const float* gradient, float* model, float* first, float* second) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float direction = gradient[i];
    if constexpr (kDecays) direction = direction + step.decay * model[i];
    const float mean = step.beta1 * first[i] + step.fresh1 * direction;
    const float square = step.beta2 * second[i] + step.fresh2 * (direction * direction);
    first[i] = mean;
    second[i] = square;
    const float root = std::sqrt(square / step.correction2) + step.epsilon;
    model[i] = model[i] - step.learning_rate * ((mean / step.correction1) / root);
  }
}

/// Settings of SGD that Adam would silently leave out, and Adam's own.
void require_valid_adam(const OptimizerOptions& options) {
  if (options.momentum != 0.0) {
    throw InvalidConfig("optimizer: adam takes no momentum (its beta1 is one), got " +
                        std::to_string(options.momentum) + ": set it to 0, or use optimizer sgd");
  }
  if (options.nesterov) {
    throw InvalidConfig("optimizer: adam takes no nesterov, got true: set it to false, or use optimizer sgd");
  }
  if (!(options.epsilon > 0.0 && std::isfinite(options.epsilon))) {
    throw InvalidConfig("optimizer: epsilon must be above 0 and finite, got " + std::to_string(options.epsilon) +
                        ": 1e-8 is usual");
  }
}

}  // namespace

OptimizerOptions optimizer_of(std::string_view method, OptimizerOptions given) {
  if (method == "adam" && given.name != "host") given.name = "adam";
  return given;
}

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)) {
  if (options_.name != "sgd" && options_.name != "adam" && options_.name != "host") {
    throw InvalidConfig("optimizer must be one of sgd | adam | host, got " + options_.name);
  }
  if ((options_.name == "host") != static_cast<bool>(options_.host)) {
    throw InvalidConfig("optimizer host and the host's step go together, got optimizer " + options_.name +
                        (options_.host ? " with one" : " without one") + ": set both, or neither");
  }
  require_range("momentum", options_.momentum, 0.0, 1.0);
  require_range("weight_decay", options_.weight_decay, 0.0, 1.0);
  require_range("beta1", options_.beta1, 0.0, 1.0);
  require_range("beta2", options_.beta2, 0.0, 1.0);
  if (options_.name == "adam") require_valid_adam(options_);
  if (options_.nesterov && options_.momentum == 0.0) {
    throw InvalidConfig("optimizer: nesterov needs a momentum above 0, got 0: set momentum, 0.9 for example");
  }
}

void Optimizer::prepare(std::uint64_t parameters) {
  const bool adam = options_.name == "adam";
  if (options_.host) return;
  if (adam || options_.momentum > 0.0) first_.assign(parameters, 0.0F);
  if (adam) second_.assign(parameters, 0.0F);
}

void Optimizer::step(Place& place, float learning_rate, View<const float> gradient, View<float> model) {
  ++steps_;
  if (options_.host) return options_.host(gradient, model);
  const bool decays = options_.weight_decay != 0.0;
  if (options_.name == "adam") {
    const AdamStep step(options_, learning_rate, steps_);
    parallel_ranges(place.pool(), model.size(), 16, [&](Range range) {
      const auto loop = decays ? adam_loop<true> : adam_loop<false>;
      loop(step, range, gradient.data(), model.data(), first_.data(), second_.data());
    });
    return;
  }
  const SgdStep step{learning_rate, static_cast<float>(options_.momentum), static_cast<float>(options_.weight_decay)};
  parallel_ranges(place.pool(), model.size(), 16, [&](Range range) {
    const auto choose = [&]<bool kDecays>() {
      if (first_.empty()) return sgd_loop<kDecays, Momentum::none>;
      return options_.nesterov ? sgd_loop<kDecays, Momentum::nesterov> : sgd_loop<kDecays, Momentum::plain>;
    };
    const auto loop = decays ? choose.operator()<true>() : choose.operator()<false>();
    loop(step, range, gradient.data(), model.data(), first_.data());
  });
}

void Optimizer::save(State& state) const {
  state.put("steps", static_cast<double>(steps_));
  if (!first_.empty()) state.put("first", View<const float>(first_));
  if (!second_.empty()) state.put("second", View<const float>(second_));
}

void Optimizer::load(const State& state) {
  steps_ = state.count("steps");
  if (!first_.empty()) state.get("first", View<float>(first_));
  if (!second_.empty()) state.get("second", View<float>(second_));
}

std::vector<View<float>> Optimizer::memory() {
  std::vector<View<float>> views;
  if (!first_.empty()) views.emplace_back(first_);
  if (!second_.empty()) views.emplace_back(second_);
  return views;
}

}  // namespace laconic
