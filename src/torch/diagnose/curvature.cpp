#include "torch/diagnose/curvature.h"

#include <torch/types.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"
#include "laconic/error.h"

namespace laconic {
namespace {

using Vector = std::vector<float>;

/// +1 or −1, a bit of the stream each.
void fill_signs(const RandomStream& stream, Vector& out) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 32 == 0) bits = draw32(stream, i / 32);
    out[i] = (bits >> (i % 32) & 1U) != 0 ? 1.0F : -1.0F;
  }
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void scale(double factor, Vector& values) {
  for (float& value : values) value = static_cast<float>(factor * value);
}

void subtract(double factor, const Vector& from, Vector& values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(values[i] - factor * from[i]);
}

Estimate mean_of(const std::vector<double>& tries) {
  const auto count = static_cast<double>(tries.size());
  double mean = 0.0;
  for (const double value : tries) mean += value / count;
  double squares = 0.0;
  for (const double value : tries) squares += (value - mean) * (value - mean);
  const double error =
      count > 1.0 ? std::sqrt(squares / (count - 1.0) / count) : std::numeric_limits<double>::quiet_NaN();
  return {mean, error};
}

void require_count(const char* name, int value) {
  if (value < 1) throw InvalidConfig(std::string(name) + " must be 1 or more, got " + std::to_string(value));
}

void require_finite(double value) {
  if (!std::isfinite(value)) {
    throw Error("the Hessian at this point is not finite: the run has diverged; take an earlier checkpoint");
  }
}

/// The largest eigenvalue of the tridiagonal matrix, and the last entry of its vector.
struct Ritz {
  double value;
  double last;
};

Ritz largest_ritz(const std::vector<double>& diagonal, const std::vector<double>& beside) {
  const auto n = static_cast<std::int64_t>(diagonal.size());
  torch::Tensor matrix = torch::zeros({n, n}, torch::kDouble);
  auto entries = matrix.accessor<double, 2>();
  for (std::int64_t i = 0; i < n; ++i) {
    entries[i][i] = diagonal[static_cast<std::size_t>(i)];
    if (i + 1 < n) entries[i][i + 1] = entries[i + 1][i] = beside[static_cast<std::size_t>(i)];
  }
  const auto [values, vectors] = torch::linalg_eigh(matrix);
  return {values[n - 1].item<double>(), vectors[n - 1][n - 1].item<double>()};
}

struct Search {
  double value = 0.0;
  bool settled = false;
};

/// v_0 random; β_{j+1} v_{j+1} = M v_j − α_j v_j − β_j v_{j−1}. The α on the diagonal and the β beside it have the
/// matrix's outer eigenvalues after a few steps.
Search search(const MatrixProduct& matrix, Vector vector, const LanczosOptions& options) {
  Vector before(vector.size()), next(vector.size());
  std::vector<double> diagonal, beside;
  scale(1.0 / std::sqrt(dot(vector, vector)), vector);
  Search result;
  for (int step = 0; step < options.steps; ++step) {
    matrix(View<const float>(vector), View<float>(next));
    if (step > 0) subtract(beside.back(), before, next);
    diagonal.push_back(dot(next, vector));
    subtract(diagonal.back(), vector, next);
    const double length = std::sqrt(dot(next, next));
    require_finite(length);
    const Ritz ritz = largest_ritz(diagonal, beside);
    result.value = ritz.value;
    // |M y − θ y| = β |s_last|: an eigenvalue lies that near.
    result.settled = length * std::abs(ritz.last) <= options.tolerance * std::abs(ritz.value);
    if (result.settled || length == 0.0) break;
    beside.push_back(length);
    scale(1.0 / length, next);
    std::swap(before, vector);
    std::swap(vector, next);
  }
  return result;
}

}  // namespace

Estimate trace_estimate(const MatrixProduct& matrix, std::size_t size, int probes, std::uint64_t seed) {
  require_count("probes", probes);
  Vector signs(size), product(size);
  std::vector<double> tries;
  for (int probe = 0; probe < probes; ++probe) {
    fill_signs({.seed = seed, .step = static_cast<std::uint32_t>(probe), .purpose = Purpose::flatness_probe}, signs);
    matrix(View<const float>(signs), View<float>(product));
    tries.push_back(dot(signs, product));
    require_finite(tries.back());
  }
  return mean_of(tries);
}

LargestEigenvalue largest_eigenvalue(const MatrixProduct& matrix, std::size_t size, const LanczosOptions& options,
                                     std::uint64_t seed) {
  require_count("starts", options.starts);
  require_count("steps", options.steps);
  LargestEigenvalue result;
  std::vector<double> tries;
  for (int start = 0; start < options.starts; ++start) {
    Vector vector(size);
    fill_signs({.seed = seed, .step = static_cast<std::uint32_t>(start), .purpose = Purpose::flatness_start}, vector);
    const Search found = search(matrix, std::move(vector), options);
    tries.push_back(found.value);
    result.unsettled += found.settled ? 0 : 1;
  }
  result.estimate = mean_of(tries);
  return result;
}

}  // namespace laconic
