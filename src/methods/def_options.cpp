#include "methods/def_options.h"

#include "laconic/error.h"
#include "methods/optimizer.h"
#include "methods/sparse_compression.h"

namespace laconic {

DefOptions def_options(const Settings& settings, const OptimizerOptions& optimizer) {
  const std::string& name = settings.method();
  if (optimizer_kind(optimizer.name) != OptimizerKind::sgd) {
    throw InvalidConfig(name + " is SGD with momentum on the worker and takes optimizer sgd only, got " +
                        optimizer.name + ": leave the optimizer out, or use a gradient method");
  }
  const auto own_or = [&](const char* setting, double other) {
    return static_cast<float>(settings.has(setting) ? settings.number(setting) : other);
  };
  const auto require_in = [&](const Interval& range, const char* setting, float value) {
    if (range.has(value)) return;  // in single precision, where 0.99999999 is 1
    throw InvalidConfig(name + ": " + setting + " must be in " + range.text() + ", got " + std::to_string(value));
  };
  DefOptions options;
  options.lambda = own_or("lambda", 0.0);
  options.momentum = own_or("momentum", optimizer.momentum);
  options.weight_decay = own_or("weight_decay", optimizer.weight_decay);
  options.nesterov = optimizer.nesterov;
  options.local_steps = settings.has("local_steps") ? static_cast<std::uint32_t>(settings.number("local_steps")) : 1;
  options.diagnose = settings.has("diagnose") && settings.is("diagnose", "on");
  options.sum.format = value_format(settings);
  options.sum.order = settings.is("order", "engine") ? SumOrder::engine : SumOrder::rank_order;
  if (options.sum.order == SumOrder::engine && options.sum.format != ValueFormat::f32) {
    throw InvalidConfig(name + ": order = engine takes values in f32 only, got " + settings.word("values") +
                        ": use order = rank_order, or f32");
  }
  require_in(kMomentumRange, "momentum", options.momentum);
  require_in(kWeightDecayRange, "weight_decay", options.weight_decay);
  if (options.nesterov && options.momentum == 0.0F) {
    throw InvalidConfig(name + ": nesterov needs a momentum above 0, got 0: set momentum, 0.9 for example");
  }
  return options;
}

}  // namespace laconic
