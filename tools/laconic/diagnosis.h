#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch/diagnose/diagnose.h"

namespace laconic::tools {

/// One figure and what it says about the choice of a method; docs/diagnose.md has the thresholds.
struct Finding {
  std::string name;     ///< in JSON: "noise_density"
  std::string measure;  ///< in the table
  double value = 0.0;
  std::string text{};               ///< the value as the table shows it
  std::optional<double> error{};    ///< standard error of the value
  std::optional<double> compare{};  ///< what a Gaussian, or chance, would give
  std::string compare_text{};
  std::string meaning{};
};

std::vector<Finding> gradient_findings(const GradientReport& report, int workers);

/// `learning_rate`: of the run at that point.
std::vector<Finding> flatness_findings(const Flatness& flatness, int starts, double learning_rate);

}  // namespace laconic::tools
