#pragma once

#include <array>
#include <cstdint>

#include "laconic/method.h"
#include "methods/settings.h"

namespace laconic {

/// DQ-SGD's choice of bits (Yan, Huang, Lan, Song 2021), step n of N, from norms that all ranks share.
///   non-convex:       B = log2(τ·‖g‖ + 1) + 1
///   strongly convex:  B = log2(κ·α^((N−n)/2)·‖g‖ + 1) + 1,  α = 1 − 2μη + Lμη²
/// rounded up and clamped to 2..16. From step N on, n counts as N. τ or κ is given, or follows from an error budget ε:
///   τ = sqrt(L·d·η / (6·(2 − L·η)·ε)),  κ = sqrt(N·L·d·η² / (12·ε)),
/// or from a budget b of bits per coordinate on average, by log2 κ ≈ b' − 1 − mean[((N−n)/2)·log2 α + log2‖g‖]. The mean
/// is over the steps so far whose norm is not zero; b' is what is left of the budget per step, up to the end N. If the
/// end is not known, the mean is over about the last `window` steps. Then, and past the end, b' is for the next
/// `window` steps. A width is never so large that the remaining steps could not save the excess with 2 bits each, nor
/// so small that they could not spend the rest with 16 bits each, so a run of N steps ends within one bit of b·N.
///
/// All ranks must choose the same width, whatever their C library. So it depends only on operations that IEEE 754
/// defines exactly (+, −, ×, ÷, sqrt and comparisons).
class BitRule {
 public:
  /// `parameters` is d. Throws an InvalidConfig that names the missing setting if a rule lacks one that it needs.
  BitRule(const Settings& settings, std::uint64_t parameters);

  /// The bits for the next step, given the norm that the rule uses.
  int bits(double norm) const;
  /// Records that a step was made with that number of bits at that norm.
  void spent(int bits, double norm);

  /// Its counts, which are the same on all ranks. A newcomer to a run takes them over.
  using Counts = std::array<double, 4>;
  Counts counts() const { return {steps_, bits_spent_, measured_, exponent_}; }
  void set_counts(const Counts& counts);

  void save(State& state) const;
  void load(const State& state);
  /// Throws InvalidConfig for counts that no run can have.
  static void require_loadable(const State& state);

 private:
  /// The steps that the rule plans for: those up to the end, or one window.
  double steps_ahead() const { return total_steps_ > steps_ ? total_steps_ - steps_ : window_; }
  double halves() const;  ///< N − n, the number of factors sqrt(α); 0 for the non-convex rule and past the end
  double exponent_of(double norm) const;  ///< ((N−n)/2)·log2 α + log2‖g‖
  int budgeted_bits(double norm) const;

  bool convex_;
  double factor_ = 0.0;  ///< τ or κ, unless a bit budget determines it
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
