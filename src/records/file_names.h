#pragma once

namespace laconic {

/// The files of a run's folder. docs/experiments.md shows what is in them.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kResultFile = "result.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kCheckpointFolder = "checkpoints";

}  // namespace laconic
