#include "claims/networks/flatness.h"

#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/whole_file.h"
#include "claims/networks/record_files.h"
#include "claims/tools.h"
#include "laconic/error.h"
#include "torch/diagnose/diagnose.h"
#include "torch/train/task_workload.h"

namespace laconic::claims {
namespace {

namespace fs = std::filesystem;

std::vector<float> read_model(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  std::vector<float> model(fs::file_size(file) / sizeof(float));
  if (!input.read(reinterpret_cast<char*>(model.data()), static_cast<std::streamsize>(model.size() * sizeof(float)))) {
    throw Error("cannot read " + file.string());
  }
  return model;
}

/// The sample is the same for all runs, so that what differs is the point.
Flatness flatness_at(const Record& record, const std::string& data) {
  RunConfig config = record.config;
  config.workers = 1;
  const auto workload = task_workload(config, data);
  const NetworkPoint point{.step = config.steps, .model = read_model(record.folder / kPointFile)};
  return flatness(config, *workload, point, {.samples = 1000, .probes = 30});
}

}  // namespace

void measure_flatness(const std::vector<std::string>& names, const RunOptions& options,
                      const std::function<void(const std::string& run, std::uint64_t seed)>& tell) {
  std::vector<Record> records = records_of(names, options);
  std::erase_if(records, [](const Record& record) {
    return !is_whole(record) || !fs::exists(record.folder / kPointFile) || fs::exists(record.folder / kFlatnessFile);
  });
  std::mutex mutex;
  side_by_side(records.size(), {}, [&](std::size_t i) {
    const Record& record = records[i];
    const Flatness found = flatness_at(record, options.data_folder);
    const nlohmann::ordered_json json{{"trace", found.trace.value},
                                      {"trace_error", found.trace.standard_error},
                                      {"largest", found.largest.estimate.value},
                                      {"largest_error", found.largest.estimate.standard_error},
                                      {"loss", found.loss},
                                      {"samples", found.samples}};
    write_whole_file((record.folder / kFlatnessFile).string(), json.dump(2) + "\n");
    const std::lock_guard lock(mutex);
    if (tell) tell(record.run->name, record.config.seed);
  });
}

}  // namespace laconic::claims
