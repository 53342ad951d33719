#pragma once

#include <utility>
#include <vector>

#include "laconic/error.h"

namespace laconic {

/// A TransportError that is only the echo of another rank's failure, so that a host that sees all ranks' errors can
/// tell the cause from its consequences.
class PeerFailure : public TransportError {
 public:
  using TransportError::TransportError;
};

/// A TransportError of a wait that was in vain, with the ranks that did not answer when they were asked.
class WaitTimeout : public TransportError {
 public:
  WaitTimeout(const std::string& what, std::vector<int> silent) : TransportError(what), silent_(std::move(silent)) {}

  const std::vector<int>& silent() const { return silent_; }

 private:
  std::vector<int> silent_;
};

}  // namespace laconic
