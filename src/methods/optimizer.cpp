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

}  // namespace

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)) {
  if (options_.name != "sgd" && options_.name != "adam") {
    throw InvalidConfig("optimizer must be one of sgd | adam, got " + options_.name);
  }
  require_range("momentum", options_.momentum, 0.0, 1.0);
  require_range("weight_decay", options_.weight_decay, 0.0, 1.0);
  require_range("beta1", options_.beta1, 0.0, 1.0);
  require_range("beta2", options_.beta2, 0.0, 1.0);
  if (options_.nesterov && options_.momentum == 0.0) {
    throw InvalidConfig("optimizer: nesterov needs a momentum above 0, got 0: set momentum, 0.9 for example");
  }
}

void Optimizer::prepare(std::uint64_t parameters) {
  const bool adam = options_.name == "adam";
  if (adam || options_.momentum > 0.0) first_.assign(parameters, 0.0F);
  if (adam) second_.assign(parameters, 0.0F);
}

void Optimizer::step(Place& place, float learning_rate, View<const float> gradient, View<float> model) {
  ++steps_;
  const auto decay = static_cast<float>(options_.weight_decay);
  if (options_.name == "sgd") {
    const auto momentum = static_cast<float>(options_.momentum);
    const bool nesterov = options_.nesterov;
    parallel_ranges(place.pool(), model.size(), 16, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; ++i) {
        float direction = gradient[i];
        if (decay != 0.0F) direction = direction + decay * model[i];
        if (momentum != 0.0F) {
          first_[i] = momentum * first_[i] + direction;
          direction = nesterov ? direction + momentum * first_[i] : first_[i];
        }
        model[i] = model[i] - learning_rate * direction;
      }
    });
    return;
  }
  const auto beta1 = static_cast<float>(options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2);
  // 1 − 0.999 in float32 would be off by 1e-5 of itself, and every step with it.
  const auto fresh1 = static_cast<float>(1.0 - options_.beta1);
  const auto fresh2 = static_cast<float>(1.0 - options_.beta2);
  const auto epsilon = static_cast<float>(options_.epsilon);
  const auto steps = static_cast<double>(steps_);
  const auto correction1 = static_cast<float>(1.0 - std::pow(options_.beta1, steps));
  const auto correction2 = static_cast<float>(1.0 - std::pow(options_.beta2, steps));
  parallel_ranges(place.pool(), model.size(), 16, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      float direction = gradient[i];
      if (decay != 0.0F) direction = direction + decay * model[i];
      first_[i] = beta1 * first_[i] + fresh1 * direction;
      second_[i] = beta2 * second_[i] + fresh2 * (direction * direction);
      const float root = std::sqrt(second_[i] / correction2) + epsilon;
      model[i] = model[i] - learning_rate * ((first_[i] / correction1) / root);
    }
  });
}

void Optimizer::save(State& state) const {
  state.put("steps", static_cast<double>(steps_));
  if (!first_.empty()) state.put("first", View<const float>(first_));
  if (!second_.empty()) state.put("second", View<const float>(second_));
}

void Optimizer::load(const State& state) {
  steps_ = static_cast<std::uint64_t>(state.number("steps"));
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
