#include "text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"

namespace laconic::tools {
namespace {

std::string three_digits(double value) {
  if (value < 10.0) return fmt::format("{:.2f}", value);
  return value < 100.0 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool to_the_right = i < right.size() && right[i];
      line += to_the_right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string bytes_text(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (bytes < 1000.0) break;
    bytes /= 1000.0;
    unit = larger;
  }
  return (unit[0] == 'B' ? fmt::format("{:.0f}", bytes) : three_digits(bytes)) + " " + unit;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  return seconds < 1.0 ? three_digits(seconds * 1e3) + " ms" : three_digits(seconds) + " s";
}

std::string percent_text(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

}  // namespace laconic::tools
