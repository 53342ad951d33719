#pragma once

#include <cstdint>

#include "base/philox.h"

// Elementary functions and normal draws that use only + − × ÷ and square roots, which every machine rounds alike. The
// log, exp and sin of different libraries differ in the last bit, and a problem must be the same everywhere.

namespace laconic::problems {

/// Relative error below 1e-15. x > 0 and normal.
double natural_log(double x);
/// log(1 + x), accurate also for tiny x; x >= 0.
double log_one_plus(double x);
/// exp(x), 0 for x below −700; x <= 700.
double exponential(double x);
/// sin(x), NaN for |x| above 1e4.
double sine(double x);
double cosine(double x);

/// 1 / (1 + exp(−x)).
double logistic(double x);
/// log(1 + exp(x)).
double soft_plus(double x);

/// Uniform in [0, 1), 32 bits.
double uniform(const RandomStream& stream, std::uint64_t i);
/// Normal(0, 1), by Marsaglia's polar method. Draw i uses block i, and blocks i + 2^32, … if points outside the circle
/// are rejected. i < 2^32.
double normal(const RandomStream& stream, std::uint64_t i);

}  // namespace laconic::problems
