#pragma once

#include <utility>
#include <vector>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Restores the momentum if a step is dropped. The kernel that updates the momentum leaves its old values in the
/// gradient, which the step no longer needs; this class notes which part of the momentum lies where.
class MomentumUndo {
 public:
  /// `before` holds the old values of the momentum, beginning at `offset`.
  void note(std::uint64_t offset, View<const float> before) { noted_.emplace_back(offset, before); }
  /// Call it if the step counts.
  void forget() { noted_.clear(); }
  /// Call it if the step is dropped.
  void take_back(Place& place, View<float> momentum);

 private:
  std::vector<std::pair<std::uint64_t, View<const float>>> noted_;
};

}  // namespace laconic
