#pragma once

#include <utility>
#include <vector>

#include "laconic/error.h"

namespace laconic {

/// A TransportError that is only a consequence of another rank's failure, so that a caller who sees the errors of all
/// ranks can distinguish the cause from its consequences.
class PeerFailure : public TransportError {
 public:
  using TransportError::TransportError;
};

/// A TransportError of a wait that timed out, with the ranks that did not answer when they were asked.
class WaitTimeout : public TransportError {
 public:
  WaitTimeout(const std::string& what, std::vector<int> silent) : TransportError(what), silent_(std::move(silent)) {}

  const std::vector<int>& silent() const { return silent_; }

 private:
  std::vector<int> silent_;
};

}  // namespace laconic
