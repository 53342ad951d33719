#include "base/printable.h"

namespace laconic {
namespace {

void append_escaped(std::string& text, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (byte == '\n') {
    text += "\\n";
  } else if (byte == '\t') {
    text += "\\t";
  } else {
    text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
}

/// Bytes of the character that begins there if it is well-formed UTF-8 and no control character, else 0.
std::size_t harmless_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xc2 && at(1) < 0xa0) return 0;  // U+0080 to U+009f: control characters in two bytes
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool beyond = (first == 0xed && at(1) >= 0xa0) || (first == 0xf4 && at(1) >= 0x90);
  return overlong || beyond ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t harmless = harmless_bytes(text);
    if (harmless == 0) {
      append_escaped(result, static_cast<unsigned char>(text.front()));
    } else {
      result.append(text.substr(0, harmless));
    }
    text.remove_prefix(harmless == 0 ? 1 : harmless);
  }
  return result;
}

}  // namespace laconic
