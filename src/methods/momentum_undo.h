#pragma once

#include <utility>
#include <vector>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Takes a step of the momentum back if the step is dropped. The kernel that moves the momentum leaves its old values in
/// the gradient, which the step no longer needs; this notes which part of the momentum lies where.
class MomentumUndo {
 public:
  /// `before` holds the momentum's old values from `offset` on.
  void note(std::uint64_t offset, View<const float> before) { noted_.emplace_back(offset, before); }
  /// The step counts.
  void forget() { noted_.clear(); }
  /// The step is dropped.
  void take_back(Place& place, View<float> momentum);

 private:
  std::vector<std::pair<std::uint64_t, View<const float>>> noted_;
};

}  // namespace laconic
