#include "torch/diagnose/geometry.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"

namespace laconic {

double density(View<const float> values) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    const double magnitude = std::abs(static_cast<double>(value));
    sum += magnitude;
    squares += magnitude * magnitude;
  }
  return squares > 0.0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 0.0;
}

EnergyShares energy_shares(View<const float> values, std::vector<float>& scratch) {
  scratch.resize(values.size());
  double all = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    scratch[i] = std::abs(values[i]);
    all += static_cast<double>(scratch[i]) * scratch[i];
  }
  EnergyShares shares;
  if (!(all > 0.0)) return shares;
  // The largest tenth first, then what is wanted of it: each selection works on what the one before left.
  auto end = scratch.end();
  for (const auto& [share, divisor] :
       {std::pair{&shares.top_tenth, 10}, {&shares.top_hundredth, 100}, {&shares.top_thousandth, 1000}}) {
    const auto kept = std::max<std::size_t>(1, values.size() / static_cast<std::size_t>(divisor));
    const auto border = scratch.begin() + static_cast<std::ptrdiff_t>(kept);
    if (border < end) std::nth_element(scratch.begin(), border, end, std::greater<>());
    end = border;
    double sum = 0.0;
    for (auto it = scratch.begin(); it != border; ++it) sum += static_cast<double>(*it) * *it;
    *share = sum / all;
  }
  return shares;
}

void Moments::add(View<const float> values) {
  require_size("the gradient", values.size(), mean_.size());
  ++count_;
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    const double before = values[i] - mean_[i];
    mean_[i] += before / count_;
    squares_[i] += before * (values[i] - mean_[i]);
  }
}

std::vector<float> Moments::mean() const { return {mean_.begin(), mean_.end()}; }

std::vector<float> Moments::deviation() const {
  std::vector<float> result(squares_.size());
  if (count_ < 2) return result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<float>(std::sqrt(squares_[i] / (count_ - 1)));
  }
  return result;
}

void SignAgreement::add(View<const float> gradient) {
  require_size("the gradient", gradient.size(), positive_.size());
  for (std::size_t i = 0; i < positive_.size(); ++i) {
    positive_[i] += gradient[i] < 0.0F ? 0U : 1U;
    speaks_[i] |= static_cast<std::uint8_t>(gradient[i] != 0.0F);
  }
  if (++added_ == workers_) count_step();
}

void SignAgreement::count_step() {
  const auto all = static_cast<std::uint32_t>(workers_);
  std::uint64_t majority = 0;
  for (std::size_t i = 0; i < positive_.size(); ++i) {
    if (speaks_[i] == 0) {
      ++silent_;
      continue;
    }
    const std::uint32_t larger = std::max(positive_[i], all - positive_[i]);
    ++spoken_;
    majority += larger;
    unanimous_ += larger == all ? 1 : 0;
  }
  majority_ += static_cast<double>(majority) / workers_;
  std::fill(positive_.begin(), positive_.end(), 0U);
  std::fill(speaks_.begin(), speaks_.end(), std::uint8_t{0});
  added_ = 0;
}

double SignAgreement::silent() const {
  const auto all = static_cast<double>(spoken_ + silent_);
  return all > 0.0 ? static_cast<double>(silent_) / all : 0.0;
}

/// Sum over p of C(W, p)·2^-W·max(p, W − p)/W.
double majority_by_chance(int workers) {
  double probability = std::ldexp(1.0, -workers);
  double mean = 0.0;
  for (int plus = 0; plus <= workers; ++plus) {
    mean += probability * std::max(plus, workers - plus) / workers;
    probability *= static_cast<double>(workers - plus) / (plus + 1);
  }
  return mean;
}

double unanimous_by_chance(int workers) { return std::ldexp(1.0, 1 - workers); }

}  // namespace laconic
