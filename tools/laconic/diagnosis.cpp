#include "diagnosis.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace laconic::tools {
namespace {

// The thresholds, which docs/diagnose.md explains.
constexpr double kDoubtful = 0.25;     // share of the mean gradient that is noise
constexpr double kDenser = 1.25;       // density of the gradient over that of the noise
constexpr double kSparseNoise = 0.25;  // density
constexpr double kNearlyAll = 0.9;     // share of energy
constexpr double kMost = 0.5;          // share of energy
constexpr double kClearVote = 0.5;     // of the way from chance to agreement
constexpr double kFaintVote = 0.1;     // of that way
constexpr double kBeyondChance = 2.0;  // times what chance gives
constexpr double kUncertain = 0.25;    // standard error over value
constexpr double kUnstable = 2.0;      // learning rate times largest eigenvalue
constexpr double kDelayed = 0.5;       // the same, for steps that come late
constexpr double kFewDirections = 20;  // trace over largest eigenvalue

std::string number(double value) { return fmt::format("{:.4g}", value); }
std::string percent(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

/// A value that is shown beside what `other`, a Gaussian or chance, would give; without its meaning.
Finding compared(const char* name, const char* measure, double value, std::string (*text_of)(double),
                 const std::string& other, double compare) {
  return {.name = name,
          .measure = measure,
          .value = value,
          .text = text_of(value),
          .compare = compare,
          .compare_text = other + " " + text_of(compare)};
}

Finding density_of_gradient(const GradientReport& report) {
  Finding finding = compared("gradient_density", "gradient density", report.gradient_density, number, "Gaussian",
                             2.0 / std::numbers::pi);
  const double ratio = report.gradient_density / report.noise_density;
  if (report.doubt > kDoubtful) {
    finding.meaning =
        fmt::format("Uncertain: {:.0f} % of this mean gradient is noise; take more --batches.", 100.0 * report.doubt);
  } else if (ratio >= kDenser) {
    finding.meaning = "Denser than the noise: suits signs (signsgd, signum).";
  } else if (ratio <= 1.0 / kDenser) {
    finding.meaning = "Sparser than the noise: suits sgd and selection (topk, regtopk) more than signs.";
  } else {
    finding.meaning = "About as dense as the noise: does not decide for or against signs.";
  }
  return finding;
}

Finding density_of_noise(const GradientReport& report) {
  return {
      .name = "noise_density",
      .measure = "noise density",
      .value = report.noise_density,
      .text = number(report.noise_density),
      .meaning = report.noise_density == 0.0 ? "There is no noise: every mini-batch has the same gradient."
                 : report.noise_density < kSparseNoise
                     ? "A few coordinates hold most of the noise: signs cap what those can do."
                     : "The noise is spread over the coordinates: a mean over workers calms it as well as signs do."};
}

Finding noise_to_signal(const GradientReport& report, int workers) {
  const double ratio = report.noise_to_signal;
  return {.name = "noise_to_signal",
          .measure = "noise over gradient",
          .value = ratio,
          .text = std::isinf(ratio) ? "beyond" : number(ratio),
          .meaning = ratio >= workers
                         ? "The mean of the workers' gradients is mostly noise: more workers or larger batches help."
                         : "The mean of the workers' gradients is mostly signal: rarer rounds (localsgd, mgrawa) would "
                           "do."};
}

Finding energy(const char* name, const char* keep, const char* measure, double share, double gaussian) {
  Finding finding = compared(name, measure, share, percent, "Gaussian", gaussian);
  if (share >= kNearlyAll) {
    finding.meaning = fmt::format("topk and regtopk with keep {} send nearly all of a step.", keep);
  } else if (share >= kMost) {
    finding.meaning = fmt::format("topk and regtopk with keep {} send most of a step, the residual the rest.", keep);
  } else {
    finding.meaning = fmt::format(
        "topk with keep {} leaves most of a step to later ones: keep more, or quantize "
        "(qsgd, dqsgd).",
        keep);
  }
  return finding;
}

Finding majority(const GradientReport& report, int workers) {
  const double chance = majority_by_chance(workers);
  Finding finding =
      compared("sign_majority", "signs with the majority", report.majority, percent, "chance", chance);
  const double way = (report.majority - chance) / (1.0 - chance);
  if (workers == 1) {
    finding.meaning = "One worker agrees with itself: take --workers as many as will vote.";
  } else if (way >= kClearVote) {
    finding.meaning = "A vote speaks for most workers: signsgd and signum lose little by it.";
  } else if (way >= kFaintVote) {
    finding.meaning = "A vote has some signal; more workers or larger batches sharpen it.";
  } else {
    finding.meaning =
        "One step's vote is close to tossing coins: add momentum (signum), larger batches, or send values.";
  }
  return finding;
}

Finding unanimity(const GradientReport& report, int workers) {
  const double chance = unanimous_by_chance(workers);
  Finding finding = compared("sign_unanimous", "signs that all share", report.unanimous, percent, "chance", chance);
  if (workers == 1) {
    finding.meaning = "One worker agrees with itself: take --workers as many as will vote.";
  } else if (report.unanimous >= kBeyondChance * chance) {
    finding.meaning = "Clearly more than chance: these coordinates survive adversaries in the vote.";
  } else {
    finding.meaning = "Not clearly more than chance: a few adversaries could turn the vote.";
  }
  return finding;
}

Finding silence(const GradientReport& report) {
  return {.name = "silent",
          .measure = "coordinates at zero",
          .value = report.silent,
          .text = percent(report.silent),
          .meaning = report.silent == 0.0
                         ? "Every coordinate has a gradient: none moves by sign(0) = + alone."
                         : "No worker has a gradient there (dead units, blank inputs): signs move them all the same, "
                           "selection leaves them."};
}

Finding trace(const Flatness& flatness) {
  const Estimate& it = flatness.trace;
  Finding finding{.name = "hessian_trace",
                  .measure = "Hessian trace",
                  .value = it.value,
                  .text = number(it.value),
                  .error = it.standard_error};
  const double directions = it.value / flatness.largest.estimate.value;
  if (!(it.standard_error <= kUncertain * std::abs(it.value))) {
    finding.meaning = "Uncertain: take more --probes before comparing it with another run's.";
  } else if (directions < kFewDirections) {
    finding.meaning = "A few sharp directions make most of it; the smaller the flatter, among points of one task.";
  } else {
    finding.meaning = "Many directions share it; the smaller the flatter, among points of one task.";
  }
  return finding;
}

Finding largest(const Flatness& flatness, int starts, double learning_rate) {
  const Estimate& it = flatness.largest.estimate;
  Finding finding{.name = "largest_eigenvalue",
                  .measure = "largest eigenvalue",
                  .value = it.value,
                  .text = number(it.value),
                  .error = it.standard_error};
  const double sharpness = learning_rate * it.value;
  const std::string product = fmt::format("Times the learning rate {:g} it is {:.3g}", learning_rate, sharpness);
  if (flatness.largest.unsettled > 0) {
    finding.meaning = fmt::format("At least this: {} of {} searches used up their steps; raise --lanczos-steps.",
                                  flatness.largest.unsettled, starts);
  } else if (sharpness >= kUnstable) {
    finding.meaning = product + ", 2 or more: plain steps overshoot; lower the learning rate.";
  } else if (sharpness >= kDelayed) {
    finding.meaning = product + ": stable, but with little room for late entries (topk, def) and long periods.";
  } else {
    finding.meaning = product + ": room for late entries (topk, def) and longer periods between rounds.";
  }
  return finding;
}

}  // namespace

std::vector<Finding> gradient_findings(const GradientReport& report, int workers) {
  // A Gaussian's largest share p has p + 2tφ(t) of its energy, where t cuts off p at both sides.
  return {density_of_gradient(report),
          density_of_noise(report),
          noise_to_signal(report, workers),
          energy("energy_top_thousandth", "0.001", "energy in the top 0.1 %", report.energy.top_thousandth, 0.012696),
          energy("energy_top_hundredth", "0.01", "energy in the top 1 %", report.energy.top_hundredth, 0.084492),
          energy("energy_top_tenth", "0.1", "energy in the top 10 %", report.energy.top_tenth, 0.439286),
          majority(report, workers),
          unanimity(report, workers),
          silence(report)};
}

std::vector<Finding> flatness_findings(const Flatness& flatness, int starts, double learning_rate) {
  return {trace(flatness), largest(flatness, starts, learning_rate)};
}

}  // namespace laconic::tools
