#pragma once

#include "base/workspace.h"
#include "laconic/place.h"
#include "laconic/status.h"

namespace laconic {

/// A cleared status in the place's scratch memory, for work whose result the CPU asks for right away.
class ScratchStatus {
 public:
  explicit ScratchStatus(Place& place)
      : place_(place), scope_(place.workspace()), view_(place.workspace().take<Status>(1)) {
    clear_status(place, view_);
  }

  StatusView view() const { return view_; }
  /// Waits for the place's work.
  Status read() const { return read_status(place_, view_); }

 private:
  Place& place_;
  Workspace::Scope scope_;
  StatusView view_;
};

}  // namespace laconic
