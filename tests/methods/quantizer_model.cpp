#include "methods/quantizer_model.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace laconic::test {
namespace {

constexpr double kDraws = 4294967296.0;  ///< 32 random bits

}  // namespace

double l2_norm(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double l2_norm(const std::vector<float>& values) { return l2_norm(std::vector<double>(values.begin(), values.end())); }

QuantizerModel::Mean QuantizerModel::mean(const std::vector<std::vector<float>>& gradients, int bits,
                                          std::uint32_t step) const {
  const std::size_t n = gradients.front().size();
  Mean mean{Vector(n, 0.0), Vector(n, 0.0), std::vector<bool>(n, false)};
  const double levels = std::pow(2.0, bits - 1) - 1.0;
  for (std::uint32_t rank = 0; rank < gradients.size(); ++rank) add(gradients[rank], levels, step, rank, mean);
  const auto workers = static_cast<double>(gradients.size());
  for (std::size_t i = 0; i < n; ++i) mean.values[i] /= workers, mean.magnitude[i] /= workers;
  return mean;
}

void QuantizerModel::add(const std::vector<float>& gradient, double levels, std::uint32_t step, std::uint32_t rank,
                         Mean& mean) const {
  std::size_t offset = 0;
  std::uint32_t tensor = 0;
  const auto scopes = by_tensor ? small_model() : std::vector<Tensor>{{"all", gradient.size()}};
  for (const Tensor& scope : scopes) {
    double norm = 0.0;
    for (std::size_t i = offset; i < offset + scope.size; ++i) {
      const auto wide = std::abs(static_cast<double>(gradient[i]));
      norm = max_norm ? std::max(norm, wide) : std::hypot(norm, wide);
    }
    const RandomStream stream{seed, step, rank, tensor++, Purpose::rounding};
    for (std::size_t i = 0; i < scope.size && norm > 0.0; ++i) {
      const auto x = static_cast<double>(gradient[offset + i]);
      const double r = std::abs(x) / norm * levels;
      const double draw = static_cast<double>(draw16(stream, i)) * 65536.0 +
                          static_cast<double>(draw16(stream.with(Purpose::rounding_tail), i));
      const double above = (r - std::floor(r)) * kDraws + draw - kDraws;
      const double level = std::floor(r) + (above >= 0.0 ? 1.0 : 0.0);
      mean.values[offset + i] += std::copysign(level * norm / levels, x);
      mean.magnitude[offset + i] += level * norm / levels;
      // r has four roundings to float32, and is cut to 2^-32.
      if (std::abs(above) <= 1.0 + r * kDraws * std::ldexp(4.0, -24)) mean.open[offset + i] = true;
    }
    offset += scope.size;
  }
}

double BitRuleModel::exact_bits(double norm, double n) const {
  return std::log2(factor * std::pow(alpha, (total_steps - n) / 2.0) * norm + 1.0) + 1.0;
}

int BitRuleModel::bits(double norm, double n) const {
  return static_cast<int>(std::clamp(std::ceil(exact_bits(norm, n)), 2.0, 16.0));
}

}  // namespace laconic::test
