#pragma once

#include "laconic/error.h"

namespace laconic {

/// A rank met a NaN or an infinity under NonfinitePolicy::error. The message names rank, tensor and step, and is the
/// same on all ranks. Either the settings or the data may be the cause, so a program may want to distinguish it from
/// other InvalidConfigs.
class NonfiniteValue : public InvalidConfig {
 public:
  using InvalidConfig::InvalidConfig;
};

}  // namespace laconic
