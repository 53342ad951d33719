#pragma once

#include <string>
#include <utility>

#include "laconic/error.h"

namespace laconic {

/// A setting of a run or of its task is out of range. Carries the section and the key that the setting has in a
/// configuration, so that a reader of files can add where it was given.
class InvalidSetting : public InvalidConfig {
 public:
  InvalidSetting(std::string section, std::string key, const std::string& message)
      : InvalidConfig(message), section_(std::move(section)), key_(std::move(key)) {}

  const std::string& section() const { return section_; }
  const std::string& key() const { return key_; }

 private:
  std::string section_;
  std::string key_;
};

}  // namespace laconic
