#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "laconic/error.h"
#include "records/parsed_text.h"

namespace laconic {

/// JSON has no NaN and no infinity, so both are written as null, and JsonRecord::number reads null as NaN.
inline nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json json_number(const std::optional<double>& value) {
  return value ? json_number(*value) : nlohmann::ordered_json();
}

/// One JSON object, with the file and line that it was read from, for messages.
class JsonRecord {
 public:
  JsonRecord(nlohmann::json json, std::string where) : json_(std::move(json)), where_(std::move(where)) {
    if (!json_.is_object()) refuse("is no JSON object");
  }

  [[noreturn]] void refuse(const std::string& what) const { throw InvalidConfig(where_ + " " + what); }

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }

  /// NaN if the key is missing or null; numbers that are not finite are written as null.
  double number(const char* key) const {
    if (!has(key)) return std::numeric_limits<double>::quiet_NaN();
    if (!json_.at(key).is_number()) refuse(unexpected(key, "a number"));
    return json_.at(key).get<double>();
  }
  /// Like number. Throws InvalidConfig if it is below zero.
  double amount(const char* key) const {
    const double value = number(key);
    if (value < 0.0) refuse(unexpected(key, "at least 0"));
    return value;
  }
  double share(const char* key) const {
    const double value = amount(key);
    if (value > 1.0) refuse(unexpected(key, "a share, 0 to 1"));
    return value;
  }
  std::uint64_t count(const char* key) const {
    if (!has(key)) return 0;
    if (!json_.at(key).is_number_unsigned()) refuse(unexpected(key, "a whole number, at least 0"));
    return json_.at(key).get<std::uint64_t>();
  }
  std::uint64_t needed_count(const char* key) const {
    if (!has(key)) refuse(std::string("has no \"") + key + "\"");
    return count(key);
  }
  std::vector<std::uint64_t> counts(const char* key) const {
    std::vector<std::uint64_t> values;
    if (!has(key)) return values;
    const nlohmann::json& list = json_.at(key);
    const auto whole = [](const nlohmann::json& value) { return value.is_number_unsigned(); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), whole)) {
      refuse(unexpected(key, "a list of whole numbers"));
    }
    return list.get<std::vector<std::uint64_t>>();
  }
  /// Empty if the key is missing or null.
  std::string text(const char* key) const {
    if (!has(key)) return {};
    if (!json_.at(key).is_string()) refuse(unexpected(key, "a text"));
    return json_.at(key).get<std::string>();
  }
  const nlohmann::json& json() const { return json_; }

 private:
  std::string unexpected(const char* key, const std::string& expected) const {
    std::string text = json_.at(key).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return std::string("has \"") + key + "\": " + text + "; expected " + expected;
  }

  nlohmann::json json_;
  std::string where_;
};

/// The object in a file. Throws an InvalidConfig that names the file if it cannot be read or is not a JSON object.
inline JsonRecord read_json_record(const std::string& path) {
  const auto text = text_of_file(path);
  if (!text) throw InvalidConfig("cannot read " + path + ": is it a run of laconic train --out?");
  nlohmann::json json = parse_json(*text, path);
  if (json.is_discarded()) throw InvalidConfig(path + " is no JSON");
  return {std::move(json), path};
}

}  // namespace laconic
