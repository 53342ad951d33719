#include "parameter_help.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace laconic::tools {
namespace {

/// A text and the methods that it holds for.
using Spoken = std::vector<std::pair<std::string, std::string>>;

void add(Spoken& all, const std::string& text, const std::string& method) {
  for (auto& [known, methods] : all) {
    if (known == text) {
      methods += ", " + method;
      return;
    }
  }
  all.emplace_back(text, method);
}

std::string meaning_of(const Parameter& parameter) { return parameter.range() + ": " + parameter.help; }

/// "; default 8", or "; default 16 (mgrawa, lgrawa), 8 (easgd)" where they differ. An empty value is no default.
std::string defaults_text(const Spoken& defaults) {
  std::string text;
  for (const auto& [value, methods] : defaults) {
    if (value.empty()) continue;
    text += (text.empty() ? "; default " : ", ") + value;
    if (defaults.size() > 1) text += " (" + methods + ")";
  }
  return text;
}

}  // namespace

std::string default_text(const Parameter& parameter) { return parameter.fallback.empty() ? "-" : parameter.fallback; }

std::string parameter_help(const std::string& name) {
  Spoken meanings;  // with the default where meanings differ: who means another thing has another default
  Spoken plain;
  Spoken defaults;
  for (const MethodRow& row : method_table()) {
    const Parameter* parameter = row.find_parameter(name);
    if (parameter == nullptr) continue;
    const std::string& fallback = parameter->fallback;
    add(plain, meaning_of(*parameter), row.name);
    add(meanings, meaning_of(*parameter) + (fallback.empty() ? "" : "; default " + fallback), row.name);
    add(defaults, fallback, row.name);
  }
  if (plain.size() == 1) {
    return plain[0].first + defaults_text(defaults) + (defaults.size() > 1 ? "" : "; of " + plain[0].second);
  }
  std::string text;
  for (const auto& [meaning, methods] : meanings) text += (text.empty() ? "of " : ". Of ") + methods + ": " + meaning;
  return text;
}

std::string example_call(const MethodRow& row) {
#if LACONIC_TORCH
  std::string call = "laconic train --task digits --method ";
#else
  std::string call = "laconic train --problem logistic-regression --method ";
#endif
  call += row.name;
  const auto turned = std::find_if(row.parameters.begin(), row.parameters.end(), [](const Parameter& parameter) {
    return parameter.word == nullptr && !parameter.fallback.empty() && parameter.fallback != "0";
  });
  if (turned == row.parameters.end()) return call;
  std::string flag = turned->name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return call + " --" + flag + " " + turned->fallback;
}

}  // namespace laconic::tools
