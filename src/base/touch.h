#pragma once

#include "base/device_queue.h"
#include "laconic/place.h"

namespace laconic {

/// A front door (of a kernel or a codec) holds one around the loops in which the processor works on the place's memory.
/// A rehearsed place (tests/support/rehearsal.h) closes its memory everywhere else, so that a loop outside a front door
/// is found. On an ordinary place it costs one test of a null pointer. May be nested.
class Touch {
 public:
  explicit Touch(Place& place) : queue_(place.queue()) {
    if (queue_ != nullptr) queue_->open_memory();
  }
  ~Touch() {
    if (queue_ != nullptr) queue_->close_memory();
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  DeviceQueue* queue_;
};

}  // namespace laconic
