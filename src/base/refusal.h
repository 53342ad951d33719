#pragma once

#include <string>

#include "laconic/error.h"

namespace laconic {

/// Settings that are refused, with the parts of the message. A list of refusals groups by reason() and so never has to
/// read the text: "qsgd: rounding = nearest needs a memory, got memory = none: set memory = error".
class Refusal : public InvalidConfig {
 public:
  struct Parts {
    std::string who;     ///< the method or the optimizer; empty: not known where it is thrown
    std::string rule;    ///< what must hold
    std::string got;     ///< what was given; empty: the rule contains it
    std::string remedy;  ///< what to do
  };

  explicit Refusal(const Parts& parts) : InvalidConfig(text(parts)), reason_(parts.rule + ": " + parts.remedy) {}

  /// The rule and the remedy: the same for every method and value that break the rule.
  const std::string& reason() const { return reason_; }

 private:
  static std::string text(const Parts& parts) {
    return (parts.who.empty() ? "" : parts.who + ": ") + parts.rule + (parts.got.empty() ? "" : ", got " + parts.got) +
           ": " + parts.remedy;
  }

  std::string reason_;
};

}  // namespace laconic
