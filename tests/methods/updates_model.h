#pragma once

#include <functional>
#include <vector>

#include "methods/def_model.h"
#include "methods/optimizer_model.h"

namespace laconic::test {

/// Compressed updates for all workers at once in float64, step by step as the page has them; C is any function.
struct UpdatesModel {
  /// c of worker k.
  using Compressor = std::function<Vector(const Vector& p, std::size_t worker)>;
  using Gradient = std::function<Vector(const Vector& point, int worker)>;
  /// The local optimizer of a parameter: hosts may have several.
  using OptimizerOf = std::function<const OptimizerOptions&(std::size_t parameter)>;

  double lambda = 0.0;
  double decay = 1.0;  ///< ρ
  double outer_rate = 1.0;
  double outer_momentum = 0.0;
  OptimizerOf optimizer;
  std::function<Vector(const Vector& mean)> returned;  ///< how Δ comes back, if not as it is
  Vector x;
  Vector u;
  std::vector<Vector> e;
  std::vector<Vector> s;
  std::vector<std::vector<OptimizerModel>> local;  ///< y of each worker, with the optimizer's memory
  int steps = 0;

  UpdatesModel(int workers, const Vector& start)
      : x(start),
        u(start.size(), 0.0),
        e(static_cast<std::size_t>(workers), Vector(start.size(), 0.0)),
        s(static_cast<std::size_t>(workers), start),
        local(static_cast<std::size_t>(workers), std::vector<OptimizerModel>(start.size())) {
    for (auto& worker : local) {
      for (std::size_t i = 0; i < start.size(); ++i) worker[i].x = start[i];
    }
  }

  Vector y(std::size_t worker) const {
    Vector values;
    for (const OptimizerModel& one : local[worker]) values.push_back(one.x);
    return values;
  }

  void step(double rate, bool meets, const Gradient& gradient, const Compressor& compress) {
    ++steps;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= shrink(rate, i);
    Vector mean(x.size(), 0.0);
    for (std::size_t k = 0; k < e.size(); ++k) {
      const Vector g = gradient(y(k), static_cast<int>(k));
      for (std::size_t i = 0; i < x.size(); ++i) {
        local[k][i].step(optimizer(i), steps, rate, g[i]);
        s[k][i] *= shrink(rate, i);
      }
      if (!meets) continue;
      Vector p(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) p[i] = s[k][i] - local[k][i].x + e[k][i];
      const Vector sent = compress(p, k);
      for (std::size_t i = 0; i < x.size(); ++i) {
        e[k][i] = decay * (p[i] - sent[i]);
        mean[i] += sent[i] / static_cast<double>(e.size());
      }
    }
    if (meets) move(returned ? returned(mean) : mean);
  }

  /// x, less the mean of all that workers have not sent.
  Vector read_mean() const {
    Vector out = x;
    for (std::size_t k = 0; k < e.size(); ++k) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        out[i] -= (e[k][i] + s[k][i] - local[k][i].x) / static_cast<double>(e.size());
      }
    }
    return out;
  }

  /// By what a decoupled weight decay multiplies a parameter.
  double shrink(double rate, std::size_t i) const {
    return optimizer(i).name == "adamw" ? 1.0 - rate * optimizer(i).weight_decay : 1.0;
  }

 private:
  void move(const Vector& mean) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      u[i] = outer_momentum * u[i] + mean[i];
      x[i] -= outer_rate * (outer_momentum > 0.0 ? mean[i] + outer_momentum * u[i] : mean[i]);
      for (std::size_t k = 0; k < e.size(); ++k) s[k][i] = local[k][i].x = x[i] - lambda * e[k][i];
    }
  }
};

}  // namespace laconic::test
