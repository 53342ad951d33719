#pragma once

#include <functional>
#include <string>
#include <vector>

#include "claims/networks/training.h"

namespace laconic::claims {

/// Measures flatness at the model of every whole record that keeps one (NetworkRun::keeps_model) and has not been
/// measured, and keeps it there; read_results has it from then on. As many at once as there are
/// cores; tells name and seed of each that is done.
void measure_flatness(const std::vector<std::string>& names, const RunOptions& options,
                      const std::function<void(const std::string& run, std::uint64_t seed)>& tell);

}  // namespace laconic::claims
