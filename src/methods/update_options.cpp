#include "methods/update_options.h"

#include "base/refusal.h"

namespace laconic {

UpdateOptions update_options(const Settings& settings) {
  const auto number_or = [&](const char* setting, double other) {
    return settings.has(setting) ? settings.number(setting) : other;
  };
  UpdateOptions options;
  options.tells_rounds = settings.has("period");
  options.local.lambda = static_cast<float>(number_or("lambda", 0.0));
  options.local.period = static_cast<std::uint32_t>(number_or("period", number_or("local_steps", 1.0)));
  options.decay = static_cast<float>(number_or("decay", 1.0));
  options.outer.learning_rate = static_cast<float>(number_or("outer_rate", 1.0));
  options.outer.momentum = static_cast<float>(number_or("outer_momentum", 0.0));
  options.outer.nesterov = options.outer.momentum != 0.0F;
  options.subtracts_error = settings.is("read", "mean");
  options.diagnose = settings.has("diagnose") && settings.is("diagnose", "on");
  return options;
}

OptimizerOptions local_optimizer(const Settings& settings, OptimizerOptions optimizer) {
  const std::string& name = settings.method();
  const bool host = optimizer_kind(optimizer.name) == OptimizerKind::host;
  const auto take = [&](const char* setting, double& value, const Interval& range) {
    if (settings.has(setting) && host) {
      throw Refusal({.who = name,
                     .rule = std::string(setting) + " is the optimizer's, and the host brings its own",
                     .got = {},
                     .remedy = "leave it out"});
    }
    if (settings.has(setting)) value = settings.number(setting);
    if (range.has(static_cast<float>(value))) return;  // in single precision, where 0.99999999 is 1
    throw InvalidConfig(name + ": " + setting + " must be in " + range.text() + ", got " + std::to_string(value));
  };
  take("momentum", optimizer.momentum, kMomentumRange);
  take("weight_decay", optimizer.weight_decay, kWeightDecayRange);
  if (optimizer.nesterov && optimizer.momentum == 0.0) {
    throw InvalidConfig(name + ": nesterov needs a momentum above 0, got 0: set momentum, 0.9 for example");
  }
  return optimizer;
}

}  // namespace laconic
