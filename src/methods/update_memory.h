#pragma once

#include <utility>

#include "base/buffer.h"
#include "laconic/place.h"

namespace laconic {

/// e as a step finds it, and where the step leaves the new one until it counts.
struct UpdateErrors {
  View<const float> error;
  View<float> next_error;
};

/// The memory that the parts of a compressed update share. The letters are those of the box in updates.cpp.
class UpdateMemory {
 public:
  /// `keeps_error`: C may leave something of p behind. `has_velocity`: there is an outer momentum. All is zero.
  void prepare(Place& place, std::uint64_t parameters, bool keeps_error, bool has_velocity);

  View<float> point() const { return point_.view(parameters_); }  ///< x
  /// e, empty if nothing is ever left behind.
  View<float> error() const { return error_.view(keeps_error_ ? parameters_ : 0); }
  /// y while an optimizer makes it, then p, then the new e until the step counts.
  View<float> next_error() const { return next_error_.view(parameters_); }
  UpdateErrors errors() const { return {error(), next_error()}; }
  View<float> velocity() const { return velocity_.view(has_velocity_ ? parameters_ : 0); }  ///< u

  /// The step counts: what lies in next_error is e from now on.
  void take_next_error() {
    if (keeps_error_) std::swap(error_, next_error_);
  }
  /// model = x − λ·e.
  void write_detached(Place& place, float lambda, View<float> model) const;

 private:
  std::uint64_t parameters_ = 0;
  bool keeps_error_ = false;
  bool has_velocity_ = false;
  Buffer<float> point_;
  Buffer<float> error_;
  Buffer<float> next_error_;
  Buffer<float> velocity_;
};

}  // namespace laconic
