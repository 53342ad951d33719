#include "claims/networks/flatness.h"

#include <filesystem>
#include <mutex>

#include "claims/networks/record_files.h"
#include "claims/tools.h"
#include "records/file_names.h"
#include "records/flatness.h"
#include "torch/diagnose/diagnose.h"
#include "torch/train/task_workload.h"

namespace laconic::claims {
namespace {

namespace fs = std::filesystem;

/// The sample is the same for all runs, so that what differs is the point.
Flatness flatness_at(const Record& record, const std::string& data) {
  RunConfig config = record.config;
  config.workers = 1;
  config.task.device = TaskConfig().device;  // the Hessian is measured on the CPU
  const auto workload = task_workload(config, data);
  const NetworkPoint point{.step = config.steps, .model = read_point(record.folder.string())};
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
    write_flatness(record.folder.string(), {.trace = found.trace.value,
                                            .trace_error = found.trace.standard_error,
                                            .largest = found.largest.estimate.value,
                                            .largest_error = found.largest.estimate.standard_error,
                                            .loss = found.loss,
                                            .samples = found.samples});
    const std::lock_guard lock(mutex);
    if (tell) tell(record.run->name, record.config.seed);
  });
}

}  // namespace laconic::claims
