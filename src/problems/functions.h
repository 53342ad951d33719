#pragma once

#include <cstdint>

#include "base/philox.h"

// Elementary functions and normal draws out of + − × ÷ and square roots alone, which every machine rounds alike:
// libraries' own log, exp and sin differ in the last bit from one to the next, and a problem must not.

namespace laconic::problems {

/// Relative error below 1e-15. x > 0 and normal.
double natural_log(double x);
/// log(1 + x), exact also where x is tiny; x >= 0.
double log_one_plus(double x);
/// 0 below −700; x <= 700.
double exponential(double x);
/// A NaN beyond |x| = 1e4.
double sine(double x);
double cosine(double x);

/// 1 / (1 + exp(−x)).
double logistic(double x);
/// log(1 + exp(x)).
double soft_plus(double x);

/// Uniform in [0, 1), 32 bits.
double uniform(const Stream& stream, std::uint64_t i);
/// Normal(0, 1), by Marsaglia's polar method: draw i takes a block of its own, and blocks i + 2^32, … where a point
/// outside the circle is refused. i < 2^32.
double normal(const Stream& stream, std::uint64_t i);

}  // namespace laconic::problems
