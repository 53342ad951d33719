#pragma once

#include <array>
#include <cstdint>

#include "laconic/method.h"
#include "methods/settings.h"

namespace laconic {

/// DQ-SGD's choice of bits (Yan, Huang, Lan, Song 2021), step n of N, from norms that all ranks share.
///   non-convex:       B = log2(τ·‖g‖ + 1) + 1
///   strongly convex:  B = log2(κ·α^((N−n)/2)·‖g‖ + 1) + 1,  α = 1 − 2μη + Lμη²
/// rounded up, clamped to 2..16. From step N on, n counts as N. τ or κ is given, or follows from an error budget ε:
///   τ = sqrt(L·d·η / (6·(2 − L·η)·ε)),  κ = sqrt(N·L·d·η² / (12·ε)),
/// or from a budget b of bits per coordinate on average, by log2 κ ≈ b' − 1 − mean[((N−n)/2)·log2 α + log2‖g‖]. The mean
/// is over the steps so far whose norm is not zero; b' is what is left of the budget per step, up to the end N. Without
/// a known end the mean is over about the last `window` steps; then, and past the end, b' looks `window` ahead. A width
/// is never so large that the steps ahead could not save the excess at 2 bits each, nor so small that they could not
/// spend what is left at 16: a run of N steps ends within one bit of b·N.
///
/// All ranks must choose the same width, whatever their C library: only operations that IEEE 754 defines exactly
/// (+, −, ×, ÷, sqrt and comparisons) decide it.
class BitRule {
 public:
  /// `parameters` is d. InvalidConfig where a rule lacks what it needs, naming it.
  BitRule(const Settings& settings, std::uint64_t parameters);

  /// The bits for the next step, given the norm that the rule goes by.
  int bits(double norm) const;
  /// The step was made with so many bits at that norm.
  void spent(int bits, double norm);

  /// What it counts, the same on all ranks: a newcomer to a run takes it over.
  using Counts = std::array<double, 4>;
  Counts counts() const { return {steps_, bits_spent_, measured_, exponent_}; }
  void set_counts(const Counts& counts);

  void save(State& state) const;
  void load(const State& state);
  /// InvalidConfig for counts that no run can have.
  static void require_loadable(const State& state);

 private:
  /// The steps that the rule still reckons with: up to the end, or a window of them.
  double steps_ahead() const { return total_steps_ > steps_ ? total_steps_ - steps_ : window_; }
  double halves() const;  ///< N − n, the number of factors sqrt(α); 0 for the non-convex rule and past the end
  double exponent_of(double norm) const;  ///< ((N−n)/2)·log2 α + log2‖g‖
  int budgeted_bits(double norm) const;

  bool convex_;
  double factor_ = 0.0;  ///< τ or κ, where no bit budget decides it
  double bit_budget_ = 0.0;
  double total_steps_ = 0.0;  ///< 0: not known
  double alpha_ = 1.0;
  double window_;
  double steps_ = 0.0;
  double bits_spent_ = 0.0;
  double measured_ = 0.0;  ///< steps whose norm was not zero
  double exponent_ = 0.0;  ///< mean of exponent_of over them
};

}  // namespace laconic
