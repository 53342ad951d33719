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

std::vector<QuantizerModel::Scope> QuantizerModel::scopes(std::size_t n) const {
  std::vector<Scope> all;
  if (chunk > 0) {
    for (std::size_t begin = 0; begin < n; begin += chunk) {
      all.push_back({begin, std::min<std::size_t>(chunk, n - begin), 0, begin});
    }
    return all;
  }
  if (!by_tensor) return {{0, n, 0, 0}};
  std::size_t offset = 0;
  std::uint32_t number = 0;
  for (const Tensor& tensor : small_model()) {
    all.push_back({offset, tensor.size, number++, 0});
    offset += tensor.size;
  }
  return all;
}

QuantizerModel::Rounded QuantizerModel::rounded(const Vector& values, const Vector& slack, double levels,
                                                const RandomStream& stream) const {
  Rounded result{Vector(values.size(), 0.0), std::vector<bool>(values.size(), false)};
  const Purpose tail = stream.purpose == Purpose::rounding ? Purpose::rounding_tail : Purpose::return_tail;
  for (const Scope& scope : scopes(values.size())) {
    double norm = 0.0;
    for (std::size_t i = scope.offset; i < scope.offset + scope.size; ++i) {
      norm = max_norm ? std::max(norm, std::abs(values[i])) : std::hypot(norm, values[i]);
    }
    const RandomStream own = stream.of_tensor(scope.tensor);
    for (std::size_t i = 0; i < scope.size && norm > 0.0; ++i) {
      const double x = values[scope.offset + i];
      const double r = std::abs(x) / norm * levels;
      const double draw = nearest ? kDraws / 2.0
                                  : static_cast<double>(draw16(own, scope.first + i)) * 65536.0 +
                                        static_cast<double>(draw16(own.with(tail), scope.first + i));
      const double above = (r - std::floor(r)) * kDraws + draw - kDraws;
      const double level = std::floor(r) + (above >= 0.0 ? 1.0 : 0.0);
      result.values[scope.offset + i] = std::copysign(level * norm / levels, x);
      // r has five roundings to float32, and is cut to 2^-32.
      const double near = (5.0 * r + slack[scope.offset + i] / norm * levels) * std::ldexp(1.0, -24);
      if (std::abs(above) <= 1.0 + near * kDraws) result.open[scope.offset + i] = true;
    }
  }
  return result;
}

QuantizerModel::Mean QuantizerModel::mean(const std::vector<std::vector<float>>& given, int bits,
                                          std::uint32_t step) const {
  const std::size_t n = given.front().size();
  Mean mean{Vector(n, 0.0), Vector(n, 0.0), std::vector<bool>(n, false), {}, Vector(n, 0.0)};
  const double levels = std::pow(2.0, bits - 1) - 1.0;
  const auto workers = static_cast<double>(given.size());
  for (std::uint32_t rank = 0; rank < given.size(); ++rank) {
    const Vector values(given[rank].begin(), given[rank].end());
    const Rounded sent =
        rounded(values, Vector(n, 0.0), levels, RandomStream{seed, step, rank, 0, Purpose::rounding});
    Vector rest(n);
    for (std::size_t i = 0; i < n; ++i) {
      mean.values[i] += sent.values[i];
      mean.magnitude[i] += std::abs(sent.values[i]);
      mean.open[i] = mean.open[i] || sent.open[i];
      rest[i] = values[i] - sent.values[i];
      mean.rest_magnitude[i] = std::max(mean.rest_magnitude[i], std::abs(values[i]) + std::abs(sent.values[i]));
    }
    mean.rests.push_back(rest);
  }
  if (requantizes) return_sums(levels, step, mean);
  for (std::size_t i = 0; i < n; ++i) mean.values[i] /= workers, mean.magnitude[i] /= workers;
  return mean;
}

/// The sums have W roundings, their norm too. A draw that is too near to call may change the norm of its scope.
void QuantizerModel::return_sums(double levels, std::uint32_t step, Mean& mean) const {
  const std::size_t n = mean.values.size();
  const std::size_t workers = mean.rests.size();
  Vector slack(n);
  for (std::size_t i = 0; i < n; ++i) slack[i] = 2.0 * static_cast<double>(workers) * mean.magnitude[i];
  const RandomStream stream{seed, step, kSharedRank, 0, Purpose::return_rounding};
  const Rounded returned = rounded(mean.values, slack, levels, stream);
  const std::size_t unit = std::max<std::size_t>(512, chunk);
  for (const Scope& scope : scopes(n)) {
    bool unsure = false;
    double largest = 0.0;
    for (std::size_t i = scope.offset; i < scope.offset + scope.size; ++i) {
      unsure = unsure || mean.open[i];
      largest = std::max(largest, mean.magnitude[i]);
    }
    for (std::size_t i = scope.offset; i < scope.offset + scope.size; ++i) {
      // Range r of W begins at the multiple of the unit at or below r·n/W.
      std::size_t owner = workers - 1;
      while (owner > 0 && i < owner * n / workers / unit * unit) --owner;
      mean.rests[owner][i] += mean.values[i] - returned.values[i];
      mean.rest_magnitude[i] += static_cast<double>(workers) * largest;
      mean.values[i] = returned.values[i];
      mean.magnitude[i] = static_cast<double>(workers) * largest;
      mean.open[i] = unsure || returned.open[i];
    }
  }
}

double BitRuleModel::exact_bits(double norm, double n) const {
  return std::log2(factor * std::pow(alpha, (total_steps - n) / 2.0) * norm + 1.0) + 1.0;
}

int BitRuleModel::bits(double norm, double n) const {
  return static_cast<int>(std::clamp(std::ceil(exact_bits(norm, n)), 2.0, 16.0));
}

}  // namespace laconic::test
