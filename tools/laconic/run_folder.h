#pragma once

#include <memory>
#include <string>

#include "experiment/files.h"

namespace laconic::tools {

/// What a run leaves on disk: config.json and metrics.jsonl from its start, result.json from its end.
class RunFolder {
 public:
  /// Empty: nothing is written. Error if the folder cannot be made, or holds a run and `overwrite` is false.
  RunFolder(std::string path, bool overwrite);

  /// The configuration is written, an earlier result removed; metrics go to the file that is handed back, if any.
  std::unique_ptr<MetricsFile> begin(const RunConfig& config) const;
  void finish(const RunConfig& config, const RunResult& result) const;

 private:
  std::string file(const char* name) const { return path_ + "/" + name; }

  std::string path_;
};

}  // namespace laconic::tools
