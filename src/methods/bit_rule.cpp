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

}  // namespace

BitRule::BitRule(const Settings& settings, std::uint64_t parameters)
    : convex_(settings.is("rule", "convex")), window_(settings.number("window")) {
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
    const double alpha = 1.0 - 2.0 * mu * eta + smoothness * mu * eta * eta;
    if (!(alpha > 0.0 && alpha < 1.0)) {
      throw InvalidConfig(settings.method() +
                          ": alpha = 1 - 2*convexity*step_size + smoothness*convexity*step_size^2 "
                          "must be in (0, 1), got " +
                          std::to_string(alpha) + ": lower step_size below 2/smoothness");
    }
    log_alpha_ = std::log2(alpha);
  } else if (settings.has("total_steps")) {
    total_steps_ = settings.number("total_steps");
  }
  if (settings.has("bit_budget")) {
    bit_budget_ = settings.number("bit_budget");
  } else if (settings.has("error_budget")) {
    const double budget = settings.number("error_budget");
    const double smoothness = needed(settings, "smoothness", "with error_budget");
    const double eta = needed(settings, "step_size", "with error_budget");
    const double squared = convex_ ? total_steps_ * smoothness * d * eta * eta / (12.0 * budget)
                                   : smoothness * d * eta / (6.0 * (2.0 - smoothness * eta) * budget);
    if (!(squared > 0.0)) {
      throw InvalidConfig(settings.method() + ": step_size must be below 2/smoothness, got " + std::to_string(eta) +
                          ": lower step_size");
    }
    log_factor_ = std::log2(std::sqrt(squared));
  } else if (convex_) {
    if (settings.has("tau")) {
      throw InvalidConfig(settings.method() + ": tau belongs to rule = nonconvex, got rule = convex: give kappa");
    }
    log_factor_ = std::log2(needed(settings, "kappa", "for rule = convex without a budget"));
  } else {
    if (settings.has("kappa")) {
      throw InvalidConfig(settings.method() + ": kappa belongs to rule = convex, got rule = nonconvex: give tau");
    }
    log_factor_ = std::log2(settings.has("tau") ? settings.number("tau") : 6.0);
  }
}

double BitRule::growth() const { return convex_ ? (total_steps_ - steps_) / 2.0 * log_alpha_ : 0.0; }

double BitRule::factor() const {
  if (bit_budget_ == 0.0) return log_factor_;
  const double left = total_steps_ > steps_ ? (bit_budget_ * total_steps_ - bits_spent_) / (total_steps_ - steps_)
                                            : bit_budget_ + (bit_budget_ * steps_ - bits_spent_) / window_;
  // Rounding up spends half a bit on average beyond the rule's own figure.
  return left - 0.5 - 1.0 - exponent_;
}

int BitRule::bits(double norm) const {
  if (bit_budget_ != 0.0 && steps_ == 0.0) return std::clamp(static_cast<int>(bit_budget_), kFewestBits, kMostBits);
  const double scaled = std::exp2(factor() + growth()) * norm;
  const double exact = std::log2(scaled + 1.0) + 1.0;
  return static_cast<int>(std::clamp(std::ceil(exact), double{kFewestBits}, double{kMostBits}));
}

void BitRule::spent(int bits, double norm) {
  if (norm > 0.0) {
    const double over = total_steps_ > 0.0 ? steps_ + 1.0 : std::min(steps_ + 1.0, window_);
    exponent_ += (growth() + std::log2(norm) - exponent_) / over;
  }
  bits_spent_ += bits;
  steps_ += 1.0;
}

void BitRule::set_counts(const Counts& counts) {
  steps_ = counts[0];
  bits_spent_ = counts[1];
  exponent_ = counts[2];
}

void BitRule::save(State& state) const {
  state.put("rule's steps", steps_);
  state.put("rule's bits", bits_spent_);
  state.put("rule's exponent", exponent_);
}

void BitRule::require_loadable(const State& state) {
  const auto steps = static_cast<double>(state.count("rule's steps"));
  state.require_in("rule's bits", kFewestBits * steps, kMostBits * steps);
  state.require_in("rule's exponent", std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

void BitRule::load(const State& state) {
  steps_ = state.number("rule's steps");
  bits_spent_ = state.number("rule's bits");
  exponent_ = state.number("rule's exponent");
}

}  // namespace laconic
