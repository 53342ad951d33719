#pragma once

#include <cmath>

namespace laconic::test {

/// What a statistical test of this project may raise by chance, all its checks together, if the seeds were drawn anew.
inline constexpr double kFalseAlarm = 1e-6;

/// The share of kFalseAlarm that one of `checks` checks may have: the union bound, whatever depends on whatever.
inline double chance_of_one(double checks) { return kFalseAlarm / checks; }

/// How far a sum of independent variables may lie from its mean: further with that chance at most. `variance` is the
/// sum's or a bound on it, and no variable lies further than `range` from its own mean. Bernstein's inequality,
/// P(|sum − mean| >= t) <= 2·exp(−t²/2 / (variance + range·t/3)), solved for t: true of all bounded variables, however
/// few or rare, where a multiple of the standard deviation asks for normal tails.
inline double bernstein(double variance, double range, double chance) {
  const double logarithm = std::log(2.0 / chance);
  const double linear = range * logarithm / 3.0;
  return linear + std::sqrt(linear * linear + 2.0 * variance * logarithm);
}

}  // namespace laconic::test
