#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

// Parses JSON and TOML from files. Nested values are visited recursively, by the parsers or by us, so text that is
// nested a hundred thousand levels deep would overflow the stack. So text is first scanned, in one pass and without
// recursion, and rejected if it is nested too deep.

namespace laconic {

/// The largest number of nested lists and tables, and of parts of a TOML key. Laconic writes at most three.
inline constexpr std::size_t kDeepest = 64;

/// The file's bytes, or nothing if it cannot be opened.
std::optional<std::string> text_of_file(const std::string& path);

/// The offset at which JSON text exceeds kDeepest, or nothing if it does not.
std::optional<std::size_t> too_deep_json(std::string_view text);

/// Throw an InvalidConfig that begins with `where` and names the offset and the limit if the text exceeds the limit.
void require_shallow_json(std::string_view text, const std::string& where);
void require_shallow_toml(std::string_view text, const std::string& where);

/// Returns a discarded value if the text is not JSON. Throws the InvalidConfig of require_shallow_json if it is nested
/// too deep.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, const std::string& where) {
  require_shallow_json(text, where);
  return Json::parse(text, nullptr, false);
}

}  // namespace laconic
