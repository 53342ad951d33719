#include "problems/functions.h"

#include <cmath>
#include <limits>

namespace laconic::problems {
namespace {

constexpr double kLog2High = 6.93147180369123816490e-01;  // with 32 trailing zero bits, so that k times it is exact
constexpr double kLog2Low = 1.90821492927058770002e-10;
constexpr double kHalfPiHigh = 1.57079632673412561417e+00;
constexpr double kHalfPiLow = 6.07710050650619224932e-11;
constexpr double kRootHalf = 0.70710678118654752440;

/// 2 atanh(z) = log((1 + z) / (1 − z)); |z| <= 0.1716.
double two_atanh(double z) {
  const double square = z * z;
  double sum = 0.0;
  for (int term = 21; term >= 1; term -= 2) sum = sum * square + 1.0 / term;
  return 2.0 * z * sum;
}

/// sin or cos of x + quarter·π/2.
double shifted_sine(double x, int quarter) {
  if (!(std::abs(x) <= 1e4)) return std::numeric_limits<double>::quiet_NaN();
  const double turns = std::nearbyint(x / (kHalfPiHigh + kHalfPiLow));
  const double rest = x - turns * kHalfPiHigh - turns * kHalfPiLow;  // |rest| <= π/4
  const double square = rest * rest;
  const int place = (static_cast<int>(turns) + quarter) & 3;
  const bool even = place % 2 == 0;
  // Taylor's series to the 19th power: the next term is below 1e-21.
  double sum = 0.0;
  for (int power = even ? 19 : 18; power > 1; power -= 2) sum = (1.0 + sum) * -square / (power * (power - 1));
  const double value = even ? rest * (1.0 + sum) : 1.0 + sum;
  return place >= 2 ? -value : value;
}

}  // namespace

double natural_log(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);
  if (fraction < kRootHalf) {
    fraction *= 2.0;
    --exponent;
  }
  const double log = two_atanh((fraction - 1.0) / (fraction + 1.0));
  return exponent * kLog2High + (log + exponent * kLog2Low);
}

double log_one_plus(double x) { return x > 0.375 ? natural_log(1.0 + x) : two_atanh(x / (2.0 + x)); }

double exponential(double x) {
  if (!(x >= -700.0)) return x < -700.0 ? 0.0 : x;
  const double turns = std::nearbyint(x / (kLog2High + kLog2Low));
  const double rest = x - turns * kLog2High - turns * kLog2Low;  // |rest| <= 0.35
  double sum = 1.0;
  for (int term = 14; term >= 1; --term) sum = 1.0 + sum * rest / term;
  return std::ldexp(sum, static_cast<int>(turns));
}

double sine(double x) { return shifted_sine(x, 0); }
double cosine(double x) { return shifted_sine(x, 1); }

double logistic(double x) {
  const double tail = exponential(-std::abs(x));
  return x >= 0.0 ? 1.0 / (1.0 + tail) : tail / (1.0 + tail);
}

double soft_plus(double x) { return (x > 0.0 ? x : 0.0) + log_one_plus(exponential(-std::abs(x))); }

double uniform(const RandomStream& stream, std::uint64_t i) { return draw32(stream, i) * 0x1p-32; }

double normal(const RandomStream& stream, std::uint64_t i) {
  for (;; i += std::uint64_t{1} << 32) {
    const PhiloxBlock block = stream.block(i);
    // The middles of 2^32 equal parts of (−1, 1): never 0.
    const double x = (block[0] + 0.5) * 0x1p-31 - 1.0;
    const double y = (block[1] + 0.5) * 0x1p-31 - 1.0;
    const double square = x * x + y * y;
    if (square < 1.0) return x * std::sqrt(-2.0 * natural_log(square) / square);
  }
}

}  // namespace laconic::problems
