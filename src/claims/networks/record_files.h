#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "claims/networks/training.h"

namespace laconic::claims {

/// One run of one seed, and where it is kept.
struct Record {
  const NetworkRun* run;
  RunConfig config;
  std::filesystem::path folder;
};

/// The names in order, seed by seed.
std::vector<Record> records_of(const std::vector<std::string>& names, const RunOptions& options);

/// Whether the folder has a run of this very configuration, and whether it has come to its end.
bool is_begun(const Record& record);
bool is_whole(const Record& record);

/// Of a whole one.
NetworkResult read_result(const Record& record);

/// The records that are whole, without running anything.
std::vector<NetworkResult> read_results(const std::vector<std::string>& names, const RunOptions& options);

}  // namespace laconic::claims
