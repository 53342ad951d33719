#pragma once

#include "laconic/error.h"

namespace laconic {

/// A rank met a NaN or an infinity under NonfinitePolicy::error. The message names rank, tensor and step, the same on
/// all ranks. The settings may be at fault or the data, so a program may want to tell it from other InvalidConfigs.
class NonfiniteValue : public InvalidConfig {
 public:
  using InvalidConfig::InvalidConfig;
};

}  // namespace laconic
