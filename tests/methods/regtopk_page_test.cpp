// RegTop-k's page has two tables made by independent models in float64. The models that the methods are compared with
// step by step (sparse_model.h) reproduce them here: so methods and tables stand on the same formulas, and what differs
// in `laconic reproduce` is float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <thread>

#include "methods/sparse_model.h"

namespace laconic::test {
namespace {

constexpr std::size_t kWorkers = 20;
constexpr std::size_t kSize = 100;
constexpr std::size_t kPoints = 500;
constexpr int kRounds = 2500;
constexpr double kRate = 0.01;
constexpr std::size_t kSeeds = 7;

using Vector = std::vector<double>;

/// gradient = H θ − b of a worker's points, H = (2/500)·AᵀA, b = (2/500)·Aᵀy.
struct Quadratic {
  Vector matrix = Vector(kSize * kSize, 0.0);
  Vector right = Vector(kSize, 0.0);

  void add(const Quadratic& other, double share) {
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += share * other.matrix[i];
    for (std::size_t i = 0; i < right.size(); ++i) right[i] += share * other.right[i];
  }

  /// By columns, which vectors do, four at a time: nearly all of this test's time goes here.
  void gradient(const Vector& point, Vector& sum) const {
    for (std::size_t i = 0; i < kSize; ++i) sum[i] = -right[i];
    for (std::size_t j = 0; j < kSize; j += 4) {
      const double* column = matrix.data() + j * kSize;  // symmetric: a row as well
      const double p[] = {point[j], point[j + 1], point[j + 2], point[j + 3]};
      for (std::size_t i = 0; i < kSize; ++i) {
        sum[i] +=
            column[i] * p[0] + column[i + kSize] * p[1] + column[i + 2 * kSize] * p[2] + column[i + 3 * kSize] * p[3];
      }
    }
  }

  /// H θ = b by Gauss; H is positive definite.
  Vector solution() const {
    Vector a = matrix;
    Vector x = right;
    for (std::size_t k = 0; k < kSize; ++k) {
      for (std::size_t i = k + 1; i < kSize; ++i) {
        const double factor = a[i * kSize + k] / a[k * kSize + k];
        for (std::size_t j = k; j < kSize; ++j) a[i * kSize + j] -= factor * a[k * kSize + j];
        x[i] -= factor * x[k];
      }
    }
    for (std::size_t i = kSize; i-- > 0;) {
      for (std::size_t j = i + 1; j < kSize; ++j) x[i] -= a[i * kSize + j] * x[j];
      x[i] /= a[i * kSize + i];
    }
    return x;
  }
};

/// The page's data: truth of worker n = m_n·1 + N(0, I), m_n ~ N(0, 5); features N(0, 1); label noise of variance 0.5.
std::vector<Quadratic> draw_workers(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Quadratic> workers(kWorkers);
  for (Quadratic& worker : workers) {
    const double mean = 5.0 * normal(random);
    Vector truth(kSize);
    for (double& value : truth) value = mean + normal(random);
    Vector row(kSize);
    for (std::size_t point = 0; point < kPoints; ++point) {
      double label = std::sqrt(0.5) * normal(random);
      for (std::size_t i = 0; i < kSize; ++i) {
        row[i] = normal(random);
        label += row[i] * truth[i];
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        const double scaled = 2.0 / kPoints * row[i];
        for (std::size_t j = 0; j < kSize; ++j) worker.matrix[i * kSize + j] += scaled * row[j];
        worker.right[i] += scaled * label;
      }
    }
  }
  return workers;
}

/// One line and column of the page's table. keep 1 without mu is dense.
struct Entry {
  const char* name;
  SparseModel model;
  double page;      ///< log10‖θ − θ*‖²
  double distance;  ///< that a median of seven may have from it
};

/// A method on its way; all of a seed go together, so that a worker's matrix is read once for all of them.
struct Descent {
  explicit Descent(const SparseModel& model) : workers(kWorkers, model) {}

  Vector point = Vector(kSize, 0.0);
  std::vector<SparseModel> workers;
  std::vector<Vector> gradients = std::vector<Vector>(kWorkers, Vector(kSize));

  double end(const Vector& optimum) const {
    double squares = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) squares += (point[i] - optimum[i]) * (point[i] - optimum[i]);
    return std::log10(squares);
  }
};

void run_all(const std::vector<Quadratic>& data, std::vector<Descent>& runs) {
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t n = 0; n < kWorkers; ++n) {
      for (Descent& each : runs) data[n].gradient(each.point, each.gradients[n]);
    }
    for (Descent& each : runs) {
      const Vector mean = sparse_mean(each.workers, each.gradients);
      for (std::size_t i = 0; i < kSize; ++i) each.point[i] -= kRate * mean[i];
    }
  }
}

SparseModel top(double keep) { return {.keep = keep}; }
SparseModel previous(double keep) { return {.keep = keep, .mu = 4.0}; }
SparseModel current(double keep) { return {.keep = keep, .mu = 4.0, .current = true}; }

// Of the page's table: dense, Top-k at S = .6, previous at .5, .55 and .9, current at .9; medians of seven seeds, as it
// asks (1 to 7). Distances allow for what it says of seeds and generators: half a decade for Top-k, a spread from -12 to
// -23 where RegTop-k converges. Measured, in the order below: -26.7 -2.2 -3.8 -18.1 -20.5 -2.7.
TEST(PageOnly, ModelsOfRegtopkReproduceTheRegression) {
  const std::vector<Entry> entries{
      {"dense", top(1.0), -27.3, 1.5},
      {"Top-k .6", top(0.6), -2.7, 1.0},
      {"previous .5", previous(0.5), -4.5, 1.5},
      {"previous .55", previous(0.55), -18.3, 4.0},
      {"previous .9", previous(0.9), -21.7, 4.0},
      {"current .9", current(0.9), -3.2, 1.0},
  };
  std::vector<std::array<double, kSeeds>> ends(entries.size());
  const auto run_seeds = [&](std::size_t first) {
    for (std::size_t seed = first; seed < kSeeds; seed += 2) {
      const auto data = draw_workers(seed + 1);
      Quadratic pooled;
      for (const Quadratic& worker : data) pooled.add(worker, 1.0 / kWorkers);
      const Vector optimum = pooled.solution();
      std::vector<Descent> runs;
      for (const Entry& entry : entries) runs.emplace_back(entry.model);
      run_all(data, runs);
      for (std::size_t i = 0; i < runs.size(); ++i) ends[i][seed] = runs[i].end(optimum);
    }
  };
  {
    std::jthread even(run_seeds, 0);
    std::jthread odd(run_seeds, 1);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::sort(ends[i].begin(), ends[i].end());
    std::string all;
    for (const double end : ends[i]) all.append(" ").append(std::to_string(end));
    EXPECT_NEAR(ends[i][kSeeds / 2], entries[i].page, entries[i].distance) << entries[i].name << ":" << all;
  }
}

/// The toy: logistic loss of x1 = [100, 1] and x2 = [-100, 1], both y = +1; θ0 = [0, 1], η = 0.9.
struct Toy {
  static constexpr std::array<double, 2> kFirst{100.0, -100.0};

  Vector point{0.0, 1.0};
  std::vector<SparseModel> workers;

  explicit Toy(const SparseModel& model) : workers(2, model) {}

  double margin(std::size_t n) const { return kFirst[n] * point[0] + point[1]; }
  double loss() const { return 0.5 * (std::log1p(std::exp(-margin(0))) + std::log1p(std::exp(-margin(1)))); }
  void step() {
    std::vector<Vector> gradients;
    for (std::size_t n = 0; n < 2; ++n) {
      const double slope = -1.0 / (1.0 + std::exp(margin(n)));
      gradients.push_back({slope * kFirst[n], slope});
    }
    const Vector mean = sparse_mean(workers, gradients);
    for (std::size_t i = 0; i < 2; ++i) point[i] -= 0.9 * mean[i];
  }
};

TEST(PageOnly, ModelsOfRegtopkReproduceTheToy) {
  struct Row {
    int step;
    double dense;
    double regularized;
    double last_digit;
  };
  const std::vector<Row> rows{{0, .3133, .3133, 1e-4},    {1, .2537, .3133, 1e-4},  {2, .2119, .2043, 1e-4},
                              {10, .0880, .0837, 1e-4},   {50, .0215, .0209, 1e-4}, {100, .0110, .0108, 1e-4},
                              {150, .00736, .00726, 1e-5}};
  Toy dense(top(1.0));
  Toy sticking(top(0.5));
  Toy regularized({.keep = 0.5, .mu = 1.0});
  int step = 0;
  for (const Row& row : rows) {
    for (; step < row.step; ++step) dense.step(), sticking.step(), regularized.step();
    EXPECT_NEAR(dense.loss(), row.dense, 0.5 * row.last_digit) << "dense, step " << step;
    EXPECT_NEAR(regularized.loss(), row.regularized, 0.5 * row.last_digit) << "RegTop-1, step " << step;
    // One huge step after a hundred in which the two workers cancelled.
    const bool stuck = row.step <= 100;
    EXPECT_NEAR(sticking.loss(), stuck ? .3133 : 0.0, 0.5e-4) << "Top-1, step " << step;
  }
}

}  // namespace
}  // namespace laconic::test
