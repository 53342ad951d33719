#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/methods.h"

namespace laconic {

/// One parameter of a method as the table shows it: a number with its range, or a word with its choices.
struct Parameter {
  const char* name;
  std::string help;
  std::string fallback;  ///< the default, as text; empty: must be given, or is derived
  MethodOptions::Number MethodOptions::*number = nullptr;
  MethodOptions::Word MethodOptions::*word = nullptr;
  double low = 0.0;
  double high = 0.0;
  bool low_open = false;  ///< low itself is not allowed
  bool whole = false;
  std::vector<std::string> choices{};
  /// The memory means the same whatever its value, so that a run may go on with another one (Method::load).
  bool may_change = false;
  const char* only_with = nullptr;                 ///< what it needs beside it to change anything; null: nothing
  bool (*counts)(const MethodOptions&) = nullptr;  ///< whether that is there; null: it always counts

  /// "(0, 1]", "2..16", "random | plus".
  std::string range() const;
  bool counts_with(const MethodOptions& options) const { return counts == nullptr || counts(options); }
  /// The same parameter with another default.
  Parameter with(std::string other_fallback) const;
  /// The same parameter, which may change from a saved run to the one that goes on.
  Parameter changeable() const;
  /// The same parameter, which changes something only in such company: help says so, and elsewhere it is refused.
  Parameter only(const char* company, bool (*has_company)(const MethodOptions&)) const;
};

/// A method's parameters with defaults filled in, every one checked; those that count with the others.
class Settings {
 public:
  Settings() = default;
  /// InvalidConfig naming value, range and remedy; also for an option that no parameter names, or that would change
  /// nothing.
  Settings(std::string method, std::span<const Parameter> parameters, const MethodOptions& options);

  double number(std::string_view name) const;  ///< LACONIC_CHECK that it is set
  bool has(std::string_view name) const;       ///< whether it is set at all
  int whole(std::string_view name) const { return static_cast<int>(number(name)); }
  const std::string& word(std::string_view name) const;
  bool is(std::string_view name, std::string_view choice) const { return word(name) == choice; }

  /// Every set parameter as text, in the table's order: for agreement between ranks and for a run's record.
  const std::vector<SettingText>& texts() const { return texts_; }
  const std::string& method() const { return method_; }

 private:
  std::string method_;
  std::vector<SettingText> texts_;
};

/// InvalidConfig where an option is out of its range, while others may still be added to it.
void require_ranges(std::string_view method, std::span<const Parameter> parameters, const MethodOptions& options);

/// InvalidConfig where the option of that name is set and changes nothing with the others.
void require_counts(std::string_view method, std::span<const Parameter> parameters, std::string_view name,
                    const MethodOptions& options);

/// The shortest text that reads back as the same number.
std::string text_of(double value);

/// Sets an option by its name in the table from text, as flags and files give it; InvalidConfig with the nearest name.
void set_option(MethodOptions& options, std::string_view method, std::string_view name, std::string_view text);

}  // namespace laconic
