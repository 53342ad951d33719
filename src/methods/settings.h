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
  const char* help;
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

  /// "(0, 1]", "2..16", "random | plus".
  std::string range() const;
  /// The same parameter with another default.
  Parameter with(std::string other_fallback) const;
  /// The same parameter, which may change from a saved run to the one that goes on.
  Parameter changeable() const;
};

/// A method's parameters with defaults filled in, every one checked.
class Settings {
 public:
  Settings() = default;
  /// InvalidConfig naming value, range and remedy; an option that no parameter names is one too.
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

/// The shortest text that reads back as the same number.
std::string text_of(double value);

/// Sets an option by its name in the table from text, as flags and files give it; InvalidConfig with the nearest name.
void set_option(MethodOptions& options, std::string_view method, std::string_view name, std::string_view text);

}  // namespace laconic
