#include "methods/sum_options.h"

#include "base/refusal.h"

namespace laconic {

ValueFormat value_format(const Settings& settings) {
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16, ValueFormat::sign, ValueFormat::two}) {
    if (settings.is("values", format_name(format))) return format;
  }
  return ValueFormat::f32;
}

DenseSumOptions dense_sum_options(const Settings& settings) {
  DenseSumOptions options;
  if (settings.has("values")) options.format = value_format(settings);
  if (settings.has("order") && settings.is("order", "engine")) options.order = SumOrder::engine;
  if (options.order == SumOrder::engine && options.format != ValueFormat::f32) {
    throw Refusal({.who = settings.method(),
                   .rule = "order = engine takes values in f32 only",
                   .got = settings.word("values"),
                   .remedy = "use order = rank_order, or f32"});
  }
  return options;
}

bool asks_for_compression(const Settings& settings) {
  return settings.number("keep") < 1.0 || value_format(settings) != ValueFormat::f32;
}

}  // namespace laconic
