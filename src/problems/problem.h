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

/// What workers minimise: the mean of one function per worker, with gradients in closed form. Immutable, so ranks that
/// are threads share one. Gradients are float32, as methods see them; loss and optimum are float64. Everything is a
/// function of (problem, settings, workers, seed), with operations that every machine rounds alike.
class Problem {
 public:
  virtual ~Problem() = default;
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const std::string& name() const { return name_; }
  int workers() const { return workers_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t parameters() const { return start_.size(); }

  /// The point where all workers start.
  const std::vector<float>& start() const { return start_; }
  /// The point where this worker starts if the method allows workers to have different models. By default start().
  virtual std::vector<float> start_of(int /*worker*/) const { return start_; }

  /// Writes the gradient of this worker's own function in a step, including noise. Returns that function's value.
  virtual double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const = 0;
  /// The mean function, without noise.
  virtual double loss(View<const float> point) const = 0;
  /// The gradient of the mean function, without noise. Round methods score models with it, so all workers use the same
  /// function.
  virtual void shared_gradient(View<const float> point, View<float> out) const = 0;

  /// The minimizer of loss(); empty if it is not known.
  const std::vector<double>& optimum() const { return optimum_; }
  /// ‖point − optimum‖₂, if the optimum is known.
  std::optional<double> distance(View<const float> point) const;
  /// L: the Lipschitz constant of the gradient of loss().
  std::optional<double> smoothness() const { return smoothness_; }
  /// μ > 0 if loss() is strongly convex.
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

/// A problem's settings, checked and with defaults filled in.
class ProblemSettings {
 public:
  /// Throws an InvalidConfig that names the value, the range and the problem's settings.
  ProblemSettings(std::string_view problem, std::span<const ProblemSetting> known, const ProblemNumbers& given);

  double number(std::string_view name) const;
  std::uint32_t whole(std::string_view name) const { return static_cast<std::uint32_t>(number(name)); }
  const ProblemNumbers& all() const { return numbers_; }

 private:
  ProblemNumbers numbers_;
};

using ProblemMaker = std::unique_ptr<Problem> (*)(const ProblemSettings&, int workers, std::uint64_t seed);

/// One problem: everything that the program and the tests know of it in advance.
struct ProblemRow {
  const char* name;
  const char* summary;
  const char* paper;
  int workers;  ///< usual number of workers; others are allowed unless its maker rejects them
  std::uint32_t steps;
  double learning_rate;
  std::vector<ProblemSetting> settings;
  ProblemMaker make;
};

/// The one table of problems.
std::span<const ProblemRow> problem_table();

/// The row of that name. Otherwise throws an InvalidConfig that lists all names.
const ProblemRow& problem_row(std::string_view name);

std::unique_ptr<Problem> make_problem(std::string_view name, const ProblemNumbers& settings, int workers,
                                      std::uint64_t seed);

/// Splits `parameters` into `count` tensors "w0", "w1", … of nearly equal size, or into fewer if there are fewer
/// parameters.
std::vector<Tensor> even_tensors(std::uint64_t parameters, std::uint32_t count);

}  // namespace laconic
