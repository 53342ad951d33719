#include "records/run_record.h"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/whole_file.h"
#include "records/file_names.h"

// Without a JSON library: the Python package records runs where none is installed.

namespace laconic {
namespace {

namespace fs = std::filesystem;

/// The step of a whole line: it begins with {"step": and ends with }, which a line that was cut off does not.
std::optional<std::uint64_t> step_of(std::string_view line) {
  constexpr std::string_view kBegin = "{\"step\":";
  if (!line.starts_with(kBegin) || !line.ends_with('}')) return {};
  line.remove_prefix(kBegin.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  std::uint64_t step = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), step);
  if (read.ec != std::errc() || (*read.ptr != ',' && *read.ptr != '}')) return {};
  return step;
}

std::string kept_lines(const std::string& path, std::uint64_t steps) {
  std::ifstream input(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(input, line);) {
    const auto step = step_of(line);
    if (!step || *step > steps) break;
    kept.append(line).append("\n");
  }
  return kept;
}

}  // namespace

RunRecord::RunRecord(std::string folder) : folder_(std::move(folder)) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) {
    throw FileError("cannot make the folder " + folder_ + " (" + failed.message() +
                        "): name one where you may write, such as runs/first",
                    folder_, failed.value());
  }
}

void RunRecord::write_config(const std::string& text) const { write_whole_file(file(kConfigFile), text); }

void RunRecord::open_metrics(std::uint64_t steps) {
  const std::string path = file(kMetricsFile);
  if (steps > 0) write_whole_file(path, kept_lines(path, steps));
  errno = 0;
  metrics_.open(path, std::ios::binary | (steps > 0 ? std::ios::app : std::ios::trunc));
  if (!metrics_) {
    throw FileError("cannot write " + path + ": is there such a folder, and may you write there?", path, errno);
  }
}

void RunRecord::write_line(const std::string& line) {
  errno = 0;
  metrics_ << line << '\n' << std::flush;
  if (!metrics_) {
    const std::string path = file(kMetricsFile);
    throw FileError("cannot write " + path + ": is the disk full?", path, errno);
  }
}

void RunRecord::write_result(const std::string& text) const { write_whole_file(file(kResultFile), text); }

void RunRecord::remove_result() const {
  std::error_code ignored;
  fs::remove(file(kResultFile), ignored);
}

}  // namespace laconic
