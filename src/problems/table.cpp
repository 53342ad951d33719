#include <algorithm>
#include <cmath>

#include "base/interval.h"
#include "laconic/error.h"
#include "problems/makers.h"

namespace laconic {
namespace {

// clang-format off
const std::vector<ProblemRow>& rows() {
  static const std::vector<ProblemRow> table{
      {"linear-regression", "least squares, every worker with a truth of its own; full batches", "Bereyhi et al. 2025", 20, 2500, 0.01,
       {{"dimension", 100, 1, 4096, true, "parameters"},
        {"points", 500, 1, 1e6, true, "points of a worker"},
        {"truth", 5, 0, 1e6, false, "standard deviation of the workers' means, about which their truths lie"},
        {"noise", 0.5, 0, 1e6, false, "variance of the labels' noise"}},
       make_linear_regression},
      {"logistic-toy", "two workers whose large gradients cancel; two parameters", "Bereyhi et al. 2025", 2, 150, 0.9,
       {{"scale", 100, 0, 1e6, false, "the feature that cancels between the workers"}},
       make_logistic_toy},
      {"noisy-quadratic", "half the weighted squares, with normal noise on some coordinates", "Bernstein et al. 2018", 1, 2000, 0.001,
       {{"dimension", 100, 1, 1e8, true, "parameters"},
        {"noise", 100, 0, 1e6, false, "standard deviation of the gradient's noise"},
        {"noisy", 1, 0, 1e8, true, "how many coordinates, from the first, have noise; 0: all"},
        {"curvature", 1, 0, 1e6, false, "second derivative"},
        {"curved", 0, 0, 1e8, true, "how many coordinates, from the first, have that curvature; 0: all"},
        {"flat", 1, 0, 1e6, false, "second derivative of the others"},
        {"start", 1, 0, 1e6, false, "standard deviation of the start"},
        {"started", 0, 0, 1e8, true, "how many coordinates, from the first, start away from the optimum; 0: all"},
        {"offset", 0, 0, 1e6, false, "standard deviation of the workers' own optima about the common one"},
        {"tensors", 1, 1, 1e6, true, "tensors of nearly equal size"}},
       make_noisy_quadratic},
      {"logistic-regression", "two classes, ell-2 regularised: strongly convex", "Yan et al. 2021", 4, 500, 0.5,
       {{"dimension", 50, 1, 4096, true, "parameters"},
        {"points", 200, 1, 1e6, true, "points of a worker"},
        {"ridge", 0.01, 1e-9, 1e6, false, "strength of the regularizer"},
        {"skew", 0, 0, 1e6, false, "standard deviation of the workers' own feature means"},
        {"batch", 0, 0, 1e6, true, "points of a step, drawn with replacement; 0: all"},
        {"tensors", 1, 1, 1e6, true, "tensors of nearly equal size"}},
       make_logistic_regression},
      {"vincent", "many minima, wide and narrow, on the square of 0.25 to 10", "Dimlioglu, Choromanska 2024", 4, 200, 0.01,
       {{"noise", 0, 0, 1e6, false, "standard deviation of the gradient's noise"}},
       make_vincent},
  };
  return table;
}
// clang-format on

template <class Rows>
std::string names_of(const Rows& named) {
  std::string text;
  for (const auto& each : named) text.append(text.empty() ? "" : ", ").append(each.name);
  return text;
}

}  // namespace

std::optional<double> Problem::distance(View<const float> point) const {
  if (optimum_.empty()) return std::nullopt;
  double squares = 0.0;
  for (std::size_t i = 0; i < optimum_.size(); ++i) {
    const double away = static_cast<double>(point[i]) - optimum_[i];
    squares += away * away;
  }
  return std::sqrt(squares);
}

ProblemSettings::ProblemSettings(std::string_view problem, std::span<const ProblemSetting> known,
                                 const ProblemNumbers& given) {
  for (const auto& [name, value] : given) {
    const auto found =
        std::find_if(known.begin(), known.end(), [&wanted = name](const auto& each) { return each.name == wanted; });
    if (found == known.end()) {
      throw InvalidConfig(std::string(problem) + " has no setting " + name + "; it has " + names_of(known));
    }
  }
  for (const ProblemSetting& setting : known) {
    double value = setting.fallback;
    for (const auto& [name, number] : given) value = name == setting.name ? number : value;
    if (!(value >= setting.low && value <= setting.high) || (setting.whole && value != std::floor(value))) {
      throw InvalidConfig(std::string(problem) + ": " + setting.name + " must be " +
                          (setting.whole ? "a whole number " : "") + "in [" + text_of(setting.low) + ", " +
                          text_of(setting.high) + "], got " + text_of(value) + ": " + setting.help);
    }
    numbers_.emplace_back(setting.name, value);
  }
}

double ProblemSettings::number(std::string_view name) const {
  for (const auto& [each, value] : numbers_) {
    if (each == name) return value;
  }
  throw BrokenInvariant("a problem reads its setting " + std::string(name) + ", which its row does not have");
}

std::span<const ProblemRow> problem_table() { return rows(); }

const ProblemRow& problem_row(std::string_view name) {
  for (const ProblemRow& row : problem_table()) {
    if (row.name == name) return row;
  }
  throw InvalidConfig("there is no problem " + std::string(name) + "; there are " + names_of(problem_table()));
}

std::unique_ptr<Problem> make_problem(std::string_view name, const ProblemNumbers& settings, int workers,
                                      std::uint64_t seed) {
  const ProblemRow& row = problem_row(name);
  if (workers < 1) throw InvalidConfig("workers must be 1 or more, got " + std::to_string(workers));
  return row.make(ProblemSettings(row.name, row.settings, settings), workers, seed);
}

std::vector<Tensor> even_tensors(std::uint64_t parameters, std::uint32_t count) {
  const std::uint64_t tensors = std::max<std::uint64_t>(1, std::min<std::uint64_t>(count, parameters));
  std::vector<Tensor> made;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    made.push_back(
        {std::string("w").append(std::to_string(i)), (i + 1) * parameters / tensors - i * parameters / tensors});
  }
  return made;
}

}  // namespace laconic
