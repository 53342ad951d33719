#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace laconic::tools {

/// Lines of tables that contain sentences.
inline constexpr std::size_t kLongestLine = 120;

/// The text in lines of at most `width` letters, those after the first with `indent`; a longer word has a line of its own.
std::vector<std::string> lines_of(const std::string& text, std::size_t width, const std::string& indent = "");

/// Columns as wide as their widest cell, two spaces apart; numbers, in columns that `right` names, end together.
/// Control characters, which a name in a file may have, are escaped. If lines were longer than `longest_line`, the widest
/// columns are made narrower: their cells go on in lines below, between words and indented. 0: lines of any length.
std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right = {},
                       std::size_t longest_line = 0);

/// "1234", "12.3 kB", "4.56 MB": three digits that count.
std::string bytes_text(double bytes);
/// "12.3 us", "4.56 ms", "7.89 s".
std::string seconds_text(double seconds);
/// "98.40 %" for a share of 0.984.
std::string percent_text(double share);

}  // namespace laconic::tools
