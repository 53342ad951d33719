#pragma once

#include <cstdint>
#include <vector>

#include "laconic/view.h"

// The shape of a gradient, which decides how well it survives signs, selection and votes.

namespace laconic {

/// phi(v) = |v|_1^2 / (d |v|_2^2), Bernstein et al. 2018: 1/d if only one entry is not zero, 2/pi for a Gaussian, 1 if
/// all entries have the same magnitude. 0 for a vector of zeros and for an empty one.
double density(View<const float> values);

/// The share of |v|_2^2 in the k = max(1, floor(share·d)) entries of largest magnitude, which Top-k selects.
struct EnergyShares {
  double top_thousandth = 0.0;
  double top_hundredth = 0.0;
  double top_tenth = 0.0;
};

/// `scratch` grows to the vector's size. O(d). The shares of a vector of zeros are 0.
EnergyShares energy_shares(View<const float> values, std::vector<float>& scratch);

/// Mean and standard deviation of each coordinate in one pass (Welford 1962), in float64.
class Moments {
 public:
  explicit Moments(std::size_t size) : mean_(size), squares_(size) {}

  void add(View<const float> values);
  std::uint32_t count() const { return count_; }
  std::vector<float> mean() const;
  /// The sample standard deviation, whose square is unbiased; zeros if fewer than two vectors were added.
  std::vector<float> deviation() const;

 private:
  std::uint32_t count_ = 0;
  std::vector<double> mean_;
  std::vector<double> squares_;  ///< of the distances from the mean
};

/// How the signs of several workers' gradients agree, coordinate by coordinate; sign(0) = +1. A coordinate where every
/// worker has exactly 0 is silent and does not count in the other figures.
class SignAgreement {
 public:
  SignAgreement(std::size_t size, int workers) : workers_(workers), positive_(size), speaks_(size) {}

  /// Adds one worker's gradient. When those of all workers have been added, the coordinates are counted and the next
  /// step begins.
  void add(View<const float> gradient);

  /// The mean share of the majority over coordinates and complete steps, in [1/2, 1].
  double majority() const { return share(majority_); }
  /// The share of coordinates where all workers have the same sign.
  double unanimous() const { return share(static_cast<double>(unanimous_)); }
  /// The share of silent coordinates.
  double silent() const;

 private:
  double share(double sum) const { return spoken_ > 0 ? sum / static_cast<double>(spoken_) : 0.0; }
  void count_step();

  int workers_;
  int added_ = 0;
  std::vector<std::uint32_t> positive_;
  std::vector<std::uint8_t> speaks_;
  double majority_ = 0.0;
  std::uint64_t unanimous_ = 0;
  std::uint64_t spoken_ = 0;
  std::uint64_t silent_ = 0;
};

/// What majority() would be if every sign were the toss of a fair coin.
double majority_by_chance(int workers);
/// What unanimous() would be if every sign were the toss of a fair coin.
double unanimous_by_chance(int workers);

}  // namespace laconic
