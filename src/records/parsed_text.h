#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

// The door for JSON and TOML that come from files. What parsers make of a value inside a value is walked over
// recursively, by them or by us, so that text that is nested a hundred thousand deep would overflow the stack. It is
// scanned first, in one pass and without recursion, and refused.

namespace laconic {

/// The most levels of lists and tables inside one another, and the most parts of a TOML key. What laconic writes has
/// three.
inline constexpr std::size_t kDeepest = 64;

/// The file's bytes, or nothing if it cannot be opened.
std::optional<std::string> text_of_file(const std::string& path);

/// Where JSON text exceeds kDeepest, as an offset; nothing if it does not.
std::optional<std::size_t> too_deep_json(std::string_view text);

/// Throw InvalidConfig that begins with `where` and names the offset and the limit, if the text exceeds it.
void require_shallow_json(std::string_view text, const std::string& where);
void require_shallow_toml(std::string_view text, const std::string& where);

/// Discarded if the text is no JSON. Throws InvalidConfig, as require_shallow_json, if it is nested too deep.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, const std::string& where) {
  require_shallow_json(text, where);
  return Json::parse(text, nullptr, false);
}

}  // namespace laconic
