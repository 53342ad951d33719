#include "methods/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/check.h"
#include "base/refusal.h"
#include "base/suggestion.h"
#include "laconic/error.h"
#include "methods/table.h"

namespace laconic {
namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool allowed(const Parameter& parameter, double value) {
  if (!std::isfinite(value) || (parameter.whole && value != std::floor(value))) return false;
  return parameter.interval.has(value);
}

[[noreturn]] void refuse(std::string_view method, const Parameter& parameter, std::string_view value) {
  throw InvalidConfig(std::string(method) + ": " + parameter.name + " must be " +
                      (parameter.word != nullptr ? "one of " : "in ") + parameter.range() + ", got " +
                      std::string(value) + ": " + parameter.help);
}

bool is_set(const MethodOptions& options, const Parameter& parameter) {
  return parameter.number != nullptr ? (options.*parameter.number).has_value() : (options.*parameter.word).has_value();
}

/// What was given, else the default, as text and in its range; nothing where there is neither.
std::optional<std::string> value_of(std::string_view method, const Parameter& parameter, const MethodOptions& options) {
  if (!is_set(options, parameter) && parameter.fallback.empty()) return std::nullopt;
  if (parameter.number != nullptr) {
    const auto given = options.*parameter.number;
    const double value = given ? *given : number_of(parameter.fallback).value();
    if (!allowed(parameter, value)) refuse(method, parameter, text_of(value));
    return text_of(value);
  }
  const std::string value = (options.*parameter.word).value_or(parameter.fallback_with(options));
  if (std::find(parameter.choices.begin(), parameter.choices.end(), value) == parameter.choices.end()) {
    refuse(method, parameter, value);
  }
  return value;
}

void require_counting(std::string_view method, const Parameter& parameter, const MethodOptions& options) {
  if (!is_set(options, parameter) || parameter.counts_with(options)) return;
  throw Refusal({.who = std::string(method),
                 .rule = std::string(parameter.name) + " counts only with " + parameter.only_with,
                 .got = value_of(method, parameter, options).value() + " without",
                 .remedy = "leave it out"});
}

}  // namespace

std::string Parameter::range() const {
  if (word == nullptr) return whole ? interval.whole_text() : interval.text();
  std::string text;
  for (const auto& choice : choices) text.append(text.empty() ? "" : " | ").append(choice);
  return text;
}

Parameter Parameter::with(std::string other_fallback) const {
  Parameter changed = *this;
  changed.fallback = std::move(other_fallback);
  return changed;
}

Parameter Parameter::or_with(const char* company, const char* given_fallback,
                             bool (*has_company)(const MethodOptions&)) const {
  Parameter changed = *this;
  changed.help += std::string("; ") + given_fallback + " by default with " + company;
  changed.second_fallback = given_fallback;
  changed.takes_second = has_company;
  return changed;
}

Parameter Parameter::changeable() const {
  Parameter changed = *this;
  changed.may_change = true;
  return changed;
}

Parameter Parameter::only(const char* company, bool (*has_company)(const MethodOptions&)) const {
  Parameter changed = *this;
  changed.help += std::string("; only with ") + company;
  changed.only_with = company;
  changed.counts = has_company;
  return changed;
}

Settings::Settings(std::string method, std::span<const Parameter> parameters, const MethodOptions& options)
    : method_(std::move(method)) {
  for (const Parameter& parameter : parameters) {
    const auto value = value_of(method_, parameter, options);
    require_counting(method_, parameter, options);
    if (value && parameter.counts_with(options)) texts_.emplace_back(parameter.name, *value);
  }
  // An option that belongs to other methods only would be ignored silently; say so instead.
  for (const MethodRow& row : method_table()) {
    for (const Parameter& other : row.parameters) {
      const bool mine = std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
        return parameter.name == std::string_view(other.name);
      });
      if (mine || !is_set(options, other)) continue;
      throw InvalidConfig(method_ + " has no parameter " + other.name + " (" + row.name +
                          " has): leave it out, or see `laconic methods`");
    }
  }
}

bool Settings::has(std::string_view name) const {
  return std::any_of(texts_.begin(), texts_.end(), [&](const auto& each) { return each.first == name; });
}

const std::string& Settings::word(std::string_view name) const {
  const auto found = std::find_if(texts_.begin(), texts_.end(), [&](const auto& each) { return each.first == name; });
  if (found == texts_.end()) throw BrokenInvariant(method_ + " reads " + std::string(name) + ", which is not set");
  return found->second;
}

double Settings::number(std::string_view name) const { return number_of(word(name)).value(); }

void require_ranges(std::string_view method, std::span<const Parameter> parameters, const MethodOptions& options) {
  for (const Parameter& parameter : parameters) value_of(method, parameter, options);
}

void require_counts(std::string_view method, std::span<const Parameter> parameters, std::string_view name,
                    const MethodOptions& options) {
  for (const Parameter& parameter : parameters) {
    if (parameter.name == name) require_counting(method, parameter, options);
  }
}

void set_option(MethodOptions& options, std::string_view method, std::string_view name, std::string_view text) {
  const MethodRow& row = method_row(method);
  std::vector<std::string> names;
  for (const Parameter& parameter : row.parameters) {
    names.emplace_back(parameter.name);
    if (parameter.name != name) continue;
    if (parameter.word != nullptr) {
      options.*parameter.word = std::string(text);
      return;
    }
    const auto value = number_of(text);
    if (!value) refuse(method, parameter, text);
    options.*parameter.number = *value;
    return;
  }
  throw InvalidConfig(
      std::string(method) + " has no parameter " + std::string(name) +
      (names.empty() ? std::string(": it has none") : did_you_mean(name, names) + " (see `laconic methods`)"));
}

}  // namespace laconic
