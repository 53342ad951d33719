#include "base/interval.h"

#include <charconv>
#include <cmath>
#include <cstdint>

namespace laconic {
namespace {

/// 1000000000, 0.5, 1e30, infinity.
std::string end_text(double value) {
  if (std::isinf(value)) return value > 0.0 ? "infinity" : "-infinity";
  if (value == std::floor(value) && std::abs(value) < 1e13) return std::to_string(static_cast<std::int64_t>(value));
  std::string text = text_of(value);
  if (const auto plus = text.find('+'); plus != std::string::npos) text.erase(plus, 1);
  return text;
}

}  // namespace

std::string text_of(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string Interval::text() const { return ends[0] + end_text(low) + ", " + end_text(high) + ends[1]; }

std::string Interval::whole_text() const { return end_text(low) + ".." + end_text(high); }

}  // namespace laconic
