#include "claims/networks/record_files.h"

#include "laconic/error.h"
#include "records/config_file.h"
#include "records/file_names.h"
#include "records/flatness.h"
#include "records/reader.h"

namespace laconic::claims {
namespace {

namespace fs = std::filesystem;

bool same_run(const RunConfig& config, const fs::path& file) {
  const auto text = [](const RunConfig& each) {
    std::string all;
    for (const ConfigEntry& entry : entries_of(each)) all += entry.section + '.' + entry.key + '=' + entry.value + '\n';
    return all;
  };
  try {
    return text(config_from(read_config_file(file.string()))) == text(config);
  } catch (const Error&) {
    return false;  // damaged, or of a version that had other settings
  }
}

}  // namespace

std::vector<Record> records_of(const std::vector<std::string>& names, const RunOptions& options) {
  std::vector<Record> records;
  for (int i = 0; i < options.seeds; ++i) {
    Scale scale = options.scale;
    scale.seed += static_cast<std::uint64_t>(i);
    for (const std::string& name : names) {
      const NetworkRun& run = run_named(name);
      records.push_back({&run, config_of(run, scale), fs::path(options.out) / run.name / std::to_string(scale.seed)});
    }
  }
  return records;
}

bool is_begun(const Record& record) {
  return fs::exists(record.folder / kConfigFile) && same_run(record.config, record.folder / kConfigFile);
}

bool is_whole(const Record& record) { return fs::exists(record.folder / kResultFile) && is_begun(record); }

NetworkResult read_result(const Record& record) {
  const RecordedRun recorded = read_run(record.folder.string());
  NetworkResult result{.run = record.run->name, .seed = record.config.seed, .steps = record.config.steps};
  for (const RecordedEvaluation& evaluation : recorded.evaluations) {
    result.accuracies[evaluation.step] = 100.0 * evaluation.accuracy;
  }
  result.accuracy = 100.0 * recorded.end.accuracy;
  result.loss = recorded.end.loss;
  result.mean_bits = recorded.end.mean_bits;
  result.rounds = recorded.end.rounds;
  result.sent_bytes_per_step = recorded.end.sent_bytes_per_step;
  result.wall_seconds = recorded.end.wall_seconds;
  if (const auto flatness = read_flatness(record.folder.string())) {
    result.flatness = {flatness->trace, flatness->trace_error, flatness->largest, flatness->largest_error};
  }
  return result;
}

std::vector<NetworkResult> read_results(const std::vector<std::string>& names, const RunOptions& options) {
  std::vector<NetworkResult> results;
  for (const Record& record : records_of(names, options)) {
    if (is_whole(record)) results.push_back(read_result(record));
  }
  return results;
}

}  // namespace laconic::claims
