#include "methods/bit_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/error.h"

namespace laconic {
namespace {

constexpr int kFewestBits = 2;
constexpr int kMostBits = 16;

double needed(const Settings& settings, const char* name, const char* why) {
  if (settings.has(name)) return settings.number(name);
  throw InvalidConfig(settings.method() + ": " + name + " must be given " + why + ", got none: set it");
}

/// 2^(B−1) − 1, the levels of a width: log2(x + 1) + 1 <= B where x is not above them.
double levels(int bits) { return static_cast<double>((1 << (bits - 1)) - 1); }

/// log2 of a positive number, cut to 40 binary places: squaring a number in [1, 2) doubles its logarithm, so that
/// reaching 2 shows the logarithm's next bit.
double binary_log(double value) {
  int exponent = 0;
  double mantissa = 2.0 * std::frexp(value, &exponent);
  double log = exponent - 1.0;
  for (double place = 0.5; place >= 0x1p-40; place *= 0.5) {
    mantissa *= mantissa;
    if (mantissa < 2.0) continue;
    mantissa *= 0.5;
    log += place;
  }
  return log;
}

/// base^(halves/2).
double half_power(double base, std::uint64_t halves) {
  double power = halves % 2 == 1 ? std::sqrt(base) : 1.0;
  for (std::uint64_t whole = halves / 2; whole > 0; whole /= 2) {
    if (whole % 2 == 1) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace

BitRule::BitRule(const Settings& settings, std::uint64_t parameters)
    : convex_(settings.is("rule", "convex")), window_(settings.has("window") ? settings.number("window") : 1.0) {
  const int given = (settings.has("tau") ? 1 : 0) + (settings.has("kappa") ? 1 : 0) +
                    (settings.has("error_budget") ? 1 : 0) + (settings.has("bit_budget") ? 1 : 0);
  if (given > 1) {
    throw InvalidConfig(settings.method() + ": give one of tau, kappa, error_budget, bit_budget, got " +
                        std::to_string(given) + ": each decides the bits alone");
  }
  const auto d = static_cast<double>(parameters);
  if (convex_) {
    total_steps_ = needed(settings, "total_steps", "for rule = convex");
    const double mu = needed(settings, "convexity", "for rule = convex");
    const double smoothness = needed(settings, "smoothness", "for rule = convex");
    const double eta = needed(settings, "step_size", "for rule = convex");
    alpha_ = 1.0 - 2.0 * mu * eta + smoothness * mu * eta * eta;
    if (!(alpha_ > 0.0 && alpha_ < 1.0)) {
      throw InvalidConfig(settings.method() +
                          ": alpha = 1 - 2*convexity*step_size + smoothness*convexity*step_size^2 "
                          "must be in (0, 1), got " +
                          std::to_string(alpha_) + ": lower step_size below 2/smoothness");
    }
  } else if (settings.has("total_steps")) {
    total_steps_ = settings.number("total_steps");
  }
  if (settings.has("bit_budget")) {
    bit_budget_ = settings.number("bit_budget");
  } else if (settings.has("error_budget")) {
    const double budget = settings.number("error_budget");
    const double smoothness = needed(settings, "smoothness", "with error_budget");
    const double eta = needed(settings, "step_size", "with error_budget");
    if (!(smoothness * eta < 2.0)) {
      throw InvalidConfig(settings.method() + ": step_size must be below 2/smoothness, got " + text_of(eta) +
                          ": lower step_size");
    }
    factor_ = convex_ ? std::sqrt(total_steps_ * smoothness * d * eta * eta / (12.0 * budget))
                      : std::sqrt(smoothness * d * eta / (6.0 * (2.0 - smoothness * eta) * budget));
    if (!std::isfinite(factor_)) {
      throw InvalidConfig(settings.method() + ": error_budget is too small for a finite factor of the rule, got " +
                          text_of(budget) + ": raise error_budget, or give " + (convex_ ? "kappa" : "tau"));
    }
  } else if (convex_) {
    if (settings.has("tau")) {
      throw InvalidConfig(settings.method() + ": tau belongs to rule = nonconvex, got rule = convex: give kappa");
    }
    factor_ = needed(settings, "kappa", "for rule = convex without a budget");
  } else {
    if (settings.has("kappa")) {
      throw InvalidConfig(settings.method() + ": kappa belongs to rule = convex, got rule = nonconvex: give tau");
    }
    factor_ = settings.has("tau") ? settings.number("tau") : 6.0;
  }
}

double BitRule::halves() const { return convex_ ? std::max(0.0, total_steps_ - steps_) : 0.0; }

double BitRule::exponent_of(double norm) const { return halves() / 2.0 * binary_log(alpha_) + binary_log(norm); }

int BitRule::bits(double norm) const {
  if (bit_budget_ != 0.0) return budgeted_bits(norm);
  const double scaled = factor_ * half_power(alpha_, static_cast<std::uint64_t>(halves())) * norm;
  int bits = kFewestBits;
  while (bits < kMostBits && scaled > levels(bits)) ++bits;
  return bits;
}

int BitRule::budgeted_bits(double norm) const {
  const double ahead = steps_ahead();
  const double left = bit_budget_ * (steps_ + ahead) - bits_spent_;
  int bits = kFewestBits;
  if (norm > 0.0 && measured_ == 0.0) {
    bits = static_cast<int>(bit_budget_);  // there is no norm yet to compare this one with
  } else if (norm > 0.0) {
    // Rounding up spends half a bit on average beyond the rule's own figure.
    const double scaled_log = left / ahead - 0.5 - 1.0 - exponent_ + exponent_of(norm);
    while (bits < kMostBits && scaled_log > binary_log(levels(bits))) ++bits;
  }
  // What the steps ahead can make up for: some width of 2..16 always lies between these two.
  const double most = std::floor(left - kFewestBits * (ahead - 1.0));
  const double least = std::ceil(left - kMostBits * (ahead - 1.0));
  const double affordable = std::min(std::max(static_cast<double>(bits), least), most);
  return static_cast<int>(std::clamp(affordable, double{kFewestBits}, double{kMostBits}));
}

void BitRule::spent(int bits, double norm) {
  if (norm > 0.0) {
    measured_ += 1.0;
    const double over = total_steps_ > 0.0 ? measured_ : std::min(measured_, window_);
    exponent_ += (exponent_of(norm) - exponent_) / over;
  }
  bits_spent_ += bits;
  steps_ += 1.0;
}

void BitRule::set_counts(const Counts& counts) {
  steps_ = counts[0];
  bits_spent_ = counts[1];
  measured_ = counts[2];
  exponent_ = counts[3];
}

void BitRule::save(State& state) const {
  state.put("rule's steps", steps_);
  state.put("rule's bits", bits_spent_);
  state.put("rule's measured steps", measured_);
  state.put("rule's exponent", exponent_);
}

void BitRule::require_loadable(const State& state) {
  const std::uint64_t counted = state.count("rule's steps");
  const auto steps = static_cast<double>(counted);
  state.count("rule's measured steps", counted);
  state.require_in("rule's bits", kFewestBits * steps, kMostBits * steps);
  state.require_in("rule's exponent", std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

void BitRule::load(const State& state) {
  steps_ = state.number("rule's steps");
  bits_spent_ = state.number("rule's bits");
  measured_ = state.number("rule's measured steps");
  exponent_ = state.number("rule's exponent");
}

}  // namespace laconic
