#pragma once

#include <string>

#include "experiment/config_text.h"

// The text of each file that a run leaves (records/file_names.h).

namespace laconic {

/// config.json: one JSON object in sections, numbers as numbers.
std::string config_json(const RunConfig& config);

/// A line of metrics.jsonl: one JSON object, without the line's end.
std::string metrics_line(const StepRecord& record);

/// result.json: one JSON object.
std::string result_json(const RunConfig& config, const RunResult& result);

}  // namespace laconic
