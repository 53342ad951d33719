#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// What a run left on disk (records/formats.h), read again. A run that was cut, or that is still going, is read as far
// as it went; what is no run is refused with file and line.

namespace laconic {

/// After one step of rank 0, sums since the start.
struct RecordedStep {
  std::uint64_t step = 0;
  double bits = 0.0;  ///< of this step
  std::uint64_t rounds = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t sent_bytes = 0;
  double seconds = 0.0;  ///< of training: evaluations are left out
};

/// Figures that the line does not have, or that were not finite, are NaN.
struct RecordedEvaluation {
  std::uint64_t step = 0;
  std::uint64_t sent_bytes = 0;  ///< since the start: the largest rank's, or rank 0's (RecordedRun::by_rank)
  double seconds = 0.0;          ///< since the start, as RecordedStep's
  double loss = 0.0;
  double accuracy = 0.0;  ///< a share, 0 to 1
  double distance = 0.0;
  double residual_norm = 0.0;
};

/// The table's row. NaN is what nobody knows.
struct RecordedEnd {
  bool finished = false;  ///< there is a result.json; else these are the last figures that were recorded
  double loss = 0.0;
  double accuracy = 0.0;
  double distance = 0.0;
  double mean_bits = 0.0;
  double payload_bytes_per_step = 0.0;  ///< of the rank with the largest
  double sent_bytes_per_step = 0.0;     ///< of the rank with the largest
  double total_sent_bytes = 0.0;        ///< of the rank with the largest
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
  std::vector<std::string> notes;  ///< what a reader should know: cut, resumed, not finished
};

/// One run. InvalidConfig naming file, line and what is wrong. A last line without its end is a run that was cut: left
/// out, and noted. A step that was made before is a resumed run: the later line counts.
RecordedRun read_run(const std::string& folder);

/// The runs of each path in turn: a run's folder, or a folder with runs in it or in its folders. Runs of one folder
/// are in the order of the table of methods, then by name.
std::vector<RecordedRun> read_runs(const std::vector<std::string>& paths);

}  // namespace laconic
