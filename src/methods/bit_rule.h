#pragma once

#include <array>
#include <cstdint>

#include "laconic/method.h"
#include "methods/settings.h"

namespace laconic {

/// DQ-SGD's choice of bits (Yan, Huang, Lan, Song 2021), step n of N, from norms that all ranks share.
///   non-convex:       B = log2(τ·‖g‖ + 1) + 1
///   strongly convex:  B = log2(κ·α^((N−n)/2)·‖g‖ + 1) + 1,  α = 1 − 2μη + Lμη²
/// rounded up, clamped to 2..16. τ or κ is given, or follows from an error budget ε:
///   τ = sqrt(L·d·η / (6·(2 − L·η)·ε)),  κ = sqrt(N·L·d·η² / (12·ε)),
/// or from a budget b of bits a coordinate on average, by log2 κ ≈ b' − 1 − mean[((N−n)/2)·log2 α + log2‖g‖], where the
/// mean is over the steps so far and b' is what is left of the budget for the steps that remain. Without a known end
/// the mean is over about the last `window` steps, and debts are paid back within as many.
class BitRule {
 public:
  /// `parameters` is d. InvalidConfig where a rule lacks what it needs, naming it.
  BitRule(const Settings& settings, std::uint64_t parameters);

  /// The bits for the next step, given the norm that the rule goes by.
  int bits(double norm) const;
  /// The step was made with so many bits at that norm.
  void spent(int bits, double norm);

  /// What it counts, the same on all ranks: a newcomer to a run takes it over.
  using Counts = std::array<double, 3>;
  Counts counts() const { return {steps_, bits_spent_, exponent_}; }
  void set_counts(const Counts& counts);

  void save(State& state) const;
  void load(const State& state);
  /// InvalidConfig for counts that no run can have.
  static void require_loadable(const State& state);

 private:
  double growth() const;  ///< log2 of α^((N−n)/2), 0 for the non-convex rule
  double factor() const;  ///< log2 of τ or κ

  bool convex_;
  double log_factor_ = 0.0;
  double bit_budget_ = 0.0;
  double total_steps_ = 0.0;
  double log_alpha_ = 0.0;
  double window_;
  double steps_ = 0.0;
  double bits_spent_ = 0.0;
  double exponent_ = 0.0;  ///< mean of growth + log2‖g‖
};

}  // namespace laconic
