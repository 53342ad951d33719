#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "laconic/method.h"
#include "laconic/view.h"

namespace laconic {

/// What workers learn: a mean of one function a worker, with gradients in closed form. Immutable once made, so ranks
/// that are threads share one. Gradients are float32, as the methods see them; loss and optimum are float64. Everything
/// is a function of (problem, settings, workers, seed), by operations that every machine rounds alike.
class Problem {
 public:
  virtual ~Problem() = default;
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const std::string& name() const { return name_; }
  int workers() const { return workers_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t parameters() const { return start_.size(); }

  /// Where all workers start.
  const std::vector<float>& start() const { return start_; }
  /// Where this worker starts if the method lets workers hold different models: start() unless the problem says else.
  virtual std::vector<float> start_of(int /*worker*/) const { return start_; }

  /// This worker's gradient of its own function at the step, noise included; returns that function's value.
  virtual double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const = 0;
  /// The mean function, without noise.
  virtual double loss(View<const float> point) const = 0;
  /// Its gradient, without noise: what a round method scores models with, the same function for all workers.
  virtual void shared_gradient(View<const float> point, View<float> out) const = 0;

  /// The minimum of loss(); empty where none is known.
  const std::vector<double>& optimum() const { return optimum_; }
  /// ‖point − optimum‖₂, where the optimum is known.
  std::optional<double> distance(View<const float> point) const;
  /// L: the gradient of loss() changes by at most L times the way.
  std::optional<double> smoothness() const { return smoothness_; }
  /// μ > 0 where loss() is strongly convex.
  std::optional<double> convexity() const { return convexity_; }

 protected:
  Problem(std::string name, int workers) : name_(std::move(name)), workers_(workers) {}

  std::vector<Tensor> tensors_;
  std::vector<float> start_;
  std::vector<double> optimum_;
  std::optional<double> smoothness_;
  std::optional<double> convexity_;

 private:
  std::string name_;
  int workers_;
};

/// One setting of a problem: a number with its range.
struct ProblemSetting {
  const char* name;
  double fallback;
  double low;
  double high;
  bool whole;
  const char* help;
};

using ProblemNumbers = std::vector<std::pair<std::string, double>>;

/// A problem's settings with defaults filled in, every one checked.
class ProblemSettings {
 public:
  /// InvalidConfig naming value, range and what settings there are.
  ProblemSettings(std::string_view problem, std::span<const ProblemSetting> known, const ProblemNumbers& given);

  double number(std::string_view name) const;
  std::uint32_t whole(std::string_view name) const { return static_cast<std::uint32_t>(number(name)); }
  const ProblemNumbers& all() const { return numbers_; }

 private:
  ProblemNumbers numbers_;
};

using ProblemMaker = std::unique_ptr<Problem> (*)(const ProblemSettings&, int workers, std::uint64_t seed);

/// One problem: all that the program and the tests know of it beforehand.
struct ProblemRow {
  const char* name;
  const char* summary;
  const char* paper;
  int workers;  ///< how many it is posed for; others are allowed unless its maker refuses
  std::uint32_t steps;
  double learning_rate;
  std::vector<ProblemSetting> settings;
  ProblemMaker make;
};

/// The one table of problems.
std::span<const ProblemRow> problem_table();

/// InvalidConfig that lists the names there are.
const ProblemRow& problem_row(std::string_view name);

std::unique_ptr<Problem> make_problem(std::string_view name, const ProblemNumbers& settings, int workers,
                                      std::uint64_t seed);

/// Cuts `parameters` into `count` tensors "w0", "w1", … of nearly equal size; fewer where there are fewer parameters.
std::vector<Tensor> even_tensors(std::uint64_t parameters, std::uint32_t count);

}  // namespace laconic
