#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "claims/networks/runs.h"

namespace laconic::claims {

/// Largest eigenvalue and trace of the loss's Hessian at the tested point; NaN where they were not measured.
struct FlatnessFigures {
  double trace = Independent::kNone;
  double trace_error = Independent::kNone;
  double largest = Independent::kNone;
  double largest_error = Independent::kNone;
};

/// One run of one seed.
struct NetworkResult {
  std::string run;
  std::uint64_t seed = 0;
  std::uint32_t steps = 0;
  /// Percent, by the number of steps that had been made. NaN for a model of language.
  std::map<std::uint64_t, double> accuracies{};
  double accuracy = 0.0;  ///< percent, at the end; NaN for a model of language
  double loss = 0.0;      ///< at the end; NaN where the run diverged
  double mean_bits = 0.0;
  std::uint64_t rounds = 0;
  double sent_bytes_per_step = 0.0;  ///< of the rank that sends the most
  double wall_seconds = 0.0;
  FlatnessFigures flatness{};

  /// Percent after this share of the steps: 1/6, 1/3, 1/2 or 1.
  double after(double share) const;
};

}  // namespace laconic::claims
