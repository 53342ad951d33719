#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "laconic/place.h"
#include "laconic/step.h"

namespace laconic {

/// Presents a step's tensors as one flat view of floats: in place if they are contiguous and float32, otherwise in an
/// internal copy.
class FlatGradient {
 public:
  /// A new step.
  void begin(std::span<const Tensor> tensors);
  /// The tensors at their place in the flat view, copied if necessary. Each tensor is added once. Valid until the next
  /// call.
  std::span<const TensorPart> add(Place& place, std::span<const TensorPart> parts);
  /// The whole gradient, once all tensors have been added. Callers change tensors only in the views that `add`
  /// returned.
  View<float> view(Place& place);

 private:
  std::vector<std::uint64_t> offsets_;
  std::vector<View<float>> in_place_;  ///< by tensor; empty for those that were copied
  std::uintptr_t origin_ = 0;  ///< where the flat view begins if the tensors are contiguous; 0: none has arrived
  bool copied_ = false;
  std::vector<TensorPart> placed_;
  Buffer<float> copies_;
};

}  // namespace laconic
