#include "records/parsed_text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "laconic/error.h"

namespace laconic {
namespace {

/// The offset behind the quoted text that begins there. Backslashes escape unless the quote is TOML's '. Where three
/// quotes end it, the text may itself end in one or two.
std::size_t behind_quoted(std::string_view text, std::size_t begin, std::string_view quote) {
  std::size_t at = begin + quote.size();
  while (at < text.size() && !text.substr(at).starts_with(quote)) at += text[at] == '\\' && quote[0] == '"' ? 2 : 1;
  at += quote.size();
  for (std::size_t more = 1; more < quote.size() && at < text.size() && text[at] == quote[0]; ++more) ++at;
  return at;
}

/// The quote that begins there: TOML has also three of a kind, between which lines may break.
std::string_view quote_at(std::string_view text, std::size_t at) {
  const std::string_view three = text.substr(at, 3);
  return three == "\"\"\"" || three == "'''" ? three : three.substr(0, 1);
}

/// Where TOML text exceeds kDeepest. Points that are not in a quoted text join the parts of a key, or stand in a
/// number, of which they are one.
std::optional<std::size_t> too_deep_toml(std::string_view text) {
  std::size_t depth = 0;
  std::size_t parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_quoted(text, at, quote_at(text, at));
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.') ++parts;
    if (std::string_view("\n,=[]{}").find(c) != std::string_view::npos) parts = 1;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kDeepest || parts > kDeepest) return at;
    ++at;
  }
  return {};
}

void require_shallow(std::optional<std::size_t> too_deep, const std::string& where) {
  if (!too_deep) return;
  throw InvalidConfig(where + ", offset " + std::to_string(*too_deep) + ": nested more than " +
                      std::to_string(kDeepest) + " deep, the most that is read; give a file with fewer levels");
}

}  // namespace

std::optional<std::string> text_of_file(const std::string& path) {
  const std::ifstream input(path, std::ios::binary);
  if (!input) return {};
  std::ostringstream text;
  text << input.rdbuf();
  return std::move(text).str();
}

std::optional<std::size_t> too_deep_json(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = behind_quoted(text, at, "\"");
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kDeepest) return at;
    ++at;
  }
  return {};
}

void require_shallow_json(std::string_view text, const std::string& where) {
  require_shallow(too_deep_json(text), where);
}

void require_shallow_toml(std::string_view text, const std::string& where) {
  require_shallow(too_deep_toml(text), where);
}

}  // namespace laconic
