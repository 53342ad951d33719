#include "kernels/regtopk/regtopk.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "kernels/topk/selection.h"

namespace laconic {
namespace {

void require_positive(std::string_view name, float value) {
  if (value > 0.0F && std::isfinite(value)) return;
  throw InvalidConfig("regtopk's " + std::string(name) + " must be finite and above 0, got " + std::to_string(value) +
                      ": the method's defaults are mu 4 and weight 1/workers");
}

/// tanh(|1 + Δ|/μ), Δ = (g − ω·a) / (ω·D) of the entry at `position` of the last support. In double, so that no
/// intermediate overflows or vanishes. 1 where D is 0, or where what was remembered is not a number.
float regularizer(const LastSupport& last, const RegtopkScore& score, std::size_t position, float current) {
  const double weight = score.weight;
  const double previous = last.corrected[position];
  const double divisor = score.denominator == Denominator::previous ? previous : static_cast<double>(current);
  if (divisor == 0.0) return 1.0F;
  const double distortion = (last.aggregate[position] - weight * previous) / (weight * divisor);
  const double argument = std::abs(1.0 + distortion) / score.mu;
  return argument < 10.0 ? regularizer_tanh(static_cast<float>(argument)) : 1.0F;
}

}  // namespace

void error_feedback_regtopk(Place& place, View<const float> gradient, View<const float> residual, View<float> rest,
                            const LastSupport& last, const RegtopkScore& score, SparseView selected,
                            StatusView status) {
  require_positive("mu", score.mu);
  require_positive("weight", score.weight);
  require_size("last.corrected", last.corrected.size(), last.indices.size());
  require_size("last.aggregate", last.aggregate.size(), last.indices.size());
  require_device("last.indices", last.indices.device(), place.device());
  require_device("last.corrected", last.corrected.device(), place.device());
  require_device("last.aggregate", last.aggregate.device(), place.device());

  const auto score_of = [&](std::size_t position, float value) {
    return std::abs(value) * regularizer(last, score, position, value);
  };
  const topk::Rescored rescored{last.indices, score_of};
  const bool first_step = last.indices.empty();
  topk::select(place, {gradient, residual, rest, first_step ? nullptr : &rescored, selected}, status);
}

float regularizer_tanh(float x) {
  // Padé's tanh(y) = p/q is right to 2^-41 for y = x/32 < 0.32; tanh(2y) = 2pq / (p² + q²) then doubles y five times.
  if (!(x < 10.0F)) return 1.0F;  // tanh is 1 to float rounding from 9.02 on
  const double y = x / 32.0;
  const double square = y * y;
  double p = y * (1.0 + square * (1.0 / 9.0 + square * (1.0 / 945.0)));
  double q = 1.0 + square * (4.0 / 9.0 + square * (1.0 / 63.0));
  for (int doubling = 0; doubling < 5; ++doubling) {
    const double product = p * q;
    q = p * p + q * q;
    p = product + product;
  }
  return static_cast<float>(p / q);
}

}  // namespace laconic
