#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/interval.h"
#include "laconic/methods.h"

namespace laconic {

/// One parameter of a method as the table shows it: a number with its range, or a word with its choices.
struct Parameter {
  const char* name;
  std::string help;
  std::string fallback;  ///< the default, as text; empty: must be given, or is derived
  MethodOptions::Number MethodOptions::*number = nullptr;
  MethodOptions::Word MethodOptions::*word = nullptr;
  Interval interval{};  ///< of a number
  bool whole = false;
  std::vector<std::string> choices{};
  /// Its value does not change the meaning of the method's memory, so a run may continue with another value
  /// (Method::load).
  bool may_change = false;
  const char* only_with = nullptr;                 ///< other settings that it needs to have an effect; null: none
  bool (*counts)(const MethodOptions&) = nullptr;  ///< whether those settings are given; null: it always has an effect
  const char* second_fallback = nullptr;  ///< the default with certain other settings; null: it is always the same
  bool (*takes_second)(const MethodOptions&) = nullptr;  ///< whether those settings are given

  /// "(0, 1]", "2..16", "random | plus".
  std::string range() const;
  bool counts_with(const MethodOptions& options) const { return counts == nullptr || counts(options); }
  /// The same parameter with another default.
  Parameter with(std::string other_fallback) const;
  /// The same parameter, which has another default with certain other settings. The help says so.
  Parameter or_with(const char* company, const char* other_fallback, bool (*has_company)(const MethodOptions&)) const;
  /// The default with these options.
  std::string fallback_with(const MethodOptions& options) const {
    return takes_second != nullptr && takes_second(options) ? second_fallback : fallback;
  }
  /// The same parameter, which may change when a saved run is continued.
  Parameter changeable() const;
  /// The same parameter, which has an effect only with certain other settings. The help says so, and without them it is
  /// rejected.
  Parameter only(const char* company, bool (*has_company)(const MethodOptions&)) const;
};

/// A method's parameters, checked and with defaults filled in. Parameters that have no effect with the others are left
/// out.
class Settings {
 public:
  Settings() = default;
  /// Throws an InvalidConfig that names value, range and remedy, also for an option that is not one of the parameters
  /// or that would have no effect.
  Settings(std::string method, std::span<const Parameter> parameters, const MethodOptions& options);

  double number(std::string_view name) const;  ///< throws BrokenInvariant if it is not set
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

/// Throws InvalidConfig if an option is out of its range. Other options may still be missing.
void require_ranges(std::string_view method, std::span<const Parameter> parameters, const MethodOptions& options);

/// Throws InvalidConfig if the option of that name is set and has no effect with the others.
void require_counts(std::string_view method, std::span<const Parameter> parameters, std::string_view name,
                    const MethodOptions& options);

/// Sets an option, by its name in the table, from the text of a flag or a file. For an unknown name it throws an
/// InvalidConfig that suggests the nearest one.
void set_option(MethodOptions& options, std::string_view method, std::string_view name, std::string_view text);

}  // namespace laconic
