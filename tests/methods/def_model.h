#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "methods/harness.h"

namespace laconic::test {

using Vector = std::vector<double>;

/// The page's steps for all workers at once in float64, plainly; C is any function. Nesterov's momentum as torch's SGD
/// has it.
struct DefModel {
  using Compressor = std::function<Vector(const Vector& p)>;
  using Gradient = std::function<Vector(const Vector& point, int worker)>;

  double lambda = 0.0;
  double momentum = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  Vector x;
  std::vector<Vector> e;
  std::vector<Vector> m;
  std::vector<Vector> delta;  ///< of local steps since the last meeting
  std::vector<Vector> local;  ///< where each worker takes its gradient

  DefModel(int workers, const Vector& start)
      : x(start),
        e(static_cast<std::size_t>(workers), Vector(start.size(), 0.0)),
        m(e),
        delta(e),
        local(static_cast<std::size_t>(workers), start) {}

  void step(double rate, bool meets, const Gradient& gradient, const Compressor& compress) {
    Vector mean(x.size(), 0.0);
    const auto workers = static_cast<double>(e.size());
    for (std::size_t k = 0; k < e.size(); ++k) {
      const Vector g = gradient(local[k], static_cast<int>(k));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double decayed = g[i] + weight_decay * local[k][i];
        m[k][i] = momentum * m[k][i] + decayed;
        const double direction = nesterov ? decayed + momentum * m[k][i] : m[k][i];
        delta[k][i] += rate * direction;
        local[k][i] -= rate * direction;
      }
      if (!meets) continue;
      Vector p(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) p[i] = delta[k][i] + e[k][i];
      const Vector sent = compress(p);
      for (std::size_t i = 0; i < x.size(); ++i) {
        e[k][i] = p[i] - sent[i];
        mean[i] += sent[i] / workers;
        delta[k][i] = 0.0;
      }
    }
    if (!meets) return;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= mean[i];
    for (std::size_t k = 0; k < e.size(); ++k) {
      for (std::size_t i = 0; i < x.size(); ++i) local[k][i] = x[i] - lambda * e[k][i];
    }
  }

  /// x less the mean of all that is owed.
  Vector virtual_iterate() const {
    Vector y = x;
    for (std::size_t k = 0; k < e.size(); ++k) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] -= (e[k][i] + delta[k][i]) / static_cast<double>(e.size());
    }
    return y;
  }
};

/// pull_gradient of the harness in float64.
inline Vector pull_gradient64(const Vector& point, int rank, std::uint32_t step) {
  // The float32 one at 0 is noise less target, to which the point is added.
  const auto offset = pull_gradient(std::vector<float>(point.size(), 0.0F), rank, step);
  Vector gradient(point.size());
  for (std::size_t i = 0; i < point.size(); ++i) gradient[i] = point[i] + static_cast<double>(offset[i]);
  return gradient;
}

/// C of the page for a step of seed 42, by the page's words: a start below n, max(1, floor(n/ratio)) entries, round the
/// end.
Vector random_block(const std::vector<Tensor>& tensors, double ratio, bool by_tensor, std::uint32_t step,
                    const Vector& p);

}  // namespace laconic::test
