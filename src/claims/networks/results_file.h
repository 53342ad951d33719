#pragma once

#include <string>
#include <vector>

#include "claims/networks/results.h"

namespace laconic::claims {

/// A compact file of results: an array of objects, one per run and seed, a line each.
std::string results_json(const std::vector<NetworkResult>& results);

/// Such a file. InvalidConfig naming file, entry and what is wrong.
std::vector<NetworkResult> read_results_json(const std::string& path);

}  // namespace laconic::claims
