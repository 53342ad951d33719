#pragma once

#include "laconic/error.h"

namespace laconic {

/// A TransportError that is only the echo of another rank's failure, so that a host that sees all ranks' errors can
/// tell the cause from its consequences.
class PeerFailure : public TransportError {
 public:
  using TransportError::TransportError;
};

}  // namespace laconic
