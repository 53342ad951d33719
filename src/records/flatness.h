#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "laconic/view.h"

// What a run's folder keeps for measurements after the run: its tested model, and the flatness of the loss there.

namespace laconic {

/// The model's float32 values in the order of its tensors. Throws Error if the file cannot be written or read.
void write_point(const std::string& folder, View<const float> model);
std::vector<float> read_point(const std::string& folder);

/// Trace and largest eigenvalue of the loss's Hessian, with standard errors.
struct RecordedFlatness {
  double trace = 0.0;
  double trace_error = 0.0;
  double largest = 0.0;
  double largest_error = 0.0;
  double loss = 0.0;
  std::uint64_t samples = 0;
};

void write_flatness(const std::string& folder, const RecordedFlatness& flatness);

/// Nothing if it was not measured. Throws an InvalidConfig that names the file if it is damaged.
std::optional<RecordedFlatness> read_flatness(const std::string& folder);

}  // namespace laconic
