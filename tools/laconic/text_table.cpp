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

constexpr const char* kBetween = "  ";
constexpr const char* kIndent = "  ";

/// Takes from the widest columns until a line has at most `longest` letters.
void narrow(std::vector<std::size_t>& widths, std::size_t longest) {
  constexpr std::size_t kLeast = 20;
  std::size_t line = 0;
  for (const std::size_t width : widths) line += width + (line == 0 ? 0 : std::string_view(kBetween).size());
  for (; line > longest; --line) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kLeast) return;
    --*widest;
  }
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text, std::size_t width, const std::string& indent) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    const std::size_t first = rest.find_first_not_of(' ');
    std::size_t end = rest.rfind(' ', width);
    if (end == std::string::npos || end <= first) end = rest.find(' ', first);
    if (end == std::string::npos) break;
    lines.push_back(rest.substr(0, end));
    rest = indent + rest.substr(end + 1);
  }
  lines.push_back(rest);
  return lines;
}

std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right,
                       std::size_t longest_line) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  if (longest_line > 0) narrow(widths, longest_line);
  std::string text;
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(lines_of(row[i], widths[i], kIndent));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t number = 0; number < lines; ++number) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const bool to_the_right = i < right.size() && right[i];
        const std::string part = number < cells[i].size() ? cells[i][number] : "";
        line += to_the_right ? fmt::format("{:>{}}", part, widths[i]) : fmt::format("{:<{}}", part, widths[i]);
        line += kBetween;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
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
