#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Reads the files of a run (records/formats.h). A run that was cut off or is still running is read as far as it got.
// Throws an InvalidConfig that names file and line for anything that is not a run.

namespace laconic {

/// Figures after one step of rank 0, summed since the start.
struct RecordedStep {
  std::uint64_t step = 0;
  double bits = 0.0;  ///< of this step
  std::uint64_t rounds = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t sent_bytes = 0;
  double seconds = 0.0;  ///< training time without evaluations
};

/// Figures that the line lacks, or that were not finite, are NaN.
struct RecordedEvaluation {
  std::uint64_t step = 0;
  std::uint64_t sent_bytes = 0;  ///< since the start: largest over ranks, or rank 0's (RecordedRun::by_rank)
  double seconds = 0.0;          ///< since the start, like RecordedStep::seconds
  double loss = 0.0;
  double accuracy = 0.0;    ///< a share, 0 to 1
  double perplexity = 0.0;  ///< of a model of language
  double distance = 0.0;
  double residual_norm = 0.0;
};

/// A row of the table. Unknown figures are NaN.
struct RecordedEnd {
  bool finished = false;  ///< true: from result.json; false: these are the last figures that were recorded
  double loss = 0.0;
  double accuracy = 0.0;
  double perplexity = 0.0;
  double distance = 0.0;
  double mean_bits = 0.0;
  double payload_bytes_per_step = 0.0;  ///< largest over ranks
  double sent_bytes_per_step = 0.0;     ///< largest over ranks
  double total_sent_bytes = 0.0;        ///< largest over ranks
  double step_seconds = 0.0;            ///< mean, of rank 0
  double wall_seconds = 0.0;            ///< of the whole run; NaN if it is not finished
  std::uint64_t rounds = 0;
};

struct RecordedRun {
  std::string folder;
  std::string method;
  std::string subject;                          ///< the task, or the problem
  std::map<std::string, std::string> settings;  ///< "method.keep" → "0.01": all of config.json
  std::vector<RecordedStep> steps;
  std::vector<RecordedEvaluation> evaluations;
  /// Ranks of an asynchronous run do not meet at evaluations: bytes are then rank 0's, here and in `evaluations`.
  bool by_rank = true;
  RecordedEnd end;
  std::vector<std::string> notes;  ///< notes for the reader: cut off, resumed, not finished
};

/// Reads one run. Throws an InvalidConfig that names file, line and fault. If the last line has no newline, the run was
/// cut off: the line is ignored and a note is added. If a step appears twice, the run was resumed: the later line
/// counts.
RecordedRun read_run(const std::string& folder);

/// The runs of each path in turn. A path is a run's folder, or a folder that contains runs directly or in subfolders.
/// Runs of one folder are in the order of the table of methods, then by name.
std::vector<RecordedRun> read_runs(const std::vector<std::string>& paths);

}  // namespace laconic
