#pragma once

#include <string>

namespace laconic {

/// The shortest text that reads back as the same number.
std::string text_of(double value);

/// Numbers that a setting may have. Each end belongs to it, '[' and ']', or does not: "[]", "()", "[)", "(]".
struct Interval {
  double low = 0.0;
  double high = 0.0;
  const char* ends = "[]";

  /// False for a NaN.
  bool has(double value) const {
    return (ends[0] == '[' ? value >= low : value > low) && (ends[1] == ']' ? value <= high : value < high);
  }
  /// As people write it: "[0, 1)", "[1, 1000000000]", "(0, 1e30]", "(0, infinity)".
  std::string text() const;
  /// The same for whole numbers: "2..16".
  std::string whole_text() const;
};

}  // namespace laconic
