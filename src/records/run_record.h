#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace laconic {

/// The record of one run: the files of its folder (records/file_names.h), written as texts. RunFolder writes through
/// it, and so does laconic.RunLog in Python.
class RunRecord {
 public:
  /// Creates the folder. Throws FileError if it cannot be created. Nothing in it changes yet.
  explicit RunRecord(std::string folder);

  /// The path of one of its files.
  std::string file(const char* name) const { return folder_ + "/" + name; }

  void write_config(const std::string& text) const;

  /// Opens the metrics. A run that is resumed after `steps` keeps the lines up to that step; 0 keeps none. A line that
  /// was cut off or is no step's line is removed, and so is what follows it. Throws FileError if it cannot write.
  void open_metrics(std::uint64_t steps);

  /// Writes one step's line and flushes it, so that a run which is cut off leaves a record of all its steps. The line
  /// is a JSON object without objects inside, and "step" is its first key. Throws FileError if it cannot write.
  void write_line(const std::string& line);

  void write_result(const std::string& text) const;

  /// The result of an earlier run, if there is one.
  void remove_result() const;

 private:
  std::string folder_;
  std::ofstream metrics_;
};

}  // namespace laconic
