#pragma once

#include "exchange/dense_sum.h"
#include "methods/settings.h"

namespace laconic {

/// The setting `values`.
ValueFormat value_format(const Settings& settings);

/// The settings `values` and `order` of a dense sum, as far as the method has them. Throws InvalidConfig for order =
/// engine with values of 16 bits.
DenseSumOptions dense_sum_options(const Settings& settings);

/// For a method that can send everything as it is: whether `values` and `keep` ask for less.
bool asks_for_compression(const Settings& settings);

}  // namespace laconic
