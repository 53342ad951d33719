#pragma once

namespace laconic {

/// The files of a run's folder. docs/experiments.md shows their contents.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kResultFile = "result.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kCheckpointFolder = "checkpoints";
/// Kept by runs that claims are decided by (records/flatness.h).
inline constexpr const char* kPointFile = "model.f32";
inline constexpr const char* kFlatnessFile = "flatness.json";

}  // namespace laconic
