#pragma once

#include <string>
#include <vector>

#include "torch/deep/records.h"

namespace laconic::deep {

/// A compact file of results: an array of objects, one a run and seed, a line each.
std::string results_json(const std::vector<DeepResult>& results);

/// Such a file. InvalidConfig naming file, entry and what is wrong.
std::vector<DeepResult> read_results_json(const std::string& path);

}  // namespace laconic::deep
