#include "methods/flat_gradient.h"

#include "kernels/convert/convert.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {

void FlatGradient::begin(std::span<const Tensor> tensors) {
  if (offsets_.empty()) {  // the first step; tensors do not change
    offsets_.push_back(0);
    for (const Tensor& tensor : tensors) offsets_.push_back(offsets_.back() + tensor.size);
  }
  in_place_.assign(tensors.size(), {});
  copied_ = false;
  origin_ = 0;
}

/// The first tensor decides where the flat view begins.
std::span<const TensorPart> FlatGradient::add(Place& place, std::span<const TensorPart> parts) {
  placed_.clear();
  for (const TensorPart& part : parts) {
    placed_.push_back(part);
    if (part.values.empty()) continue;
    const std::uint64_t offset = offsets_[part.tensor];
    if (part.values.is_float32()) {
      const std::uintptr_t origin = reinterpret_cast<std::uintptr_t>(part.values.data()) - offset * sizeof(float);
      if (origin_ == 0) origin_ = origin;
      if (origin == origin_) {
        in_place_[part.tensor] = part.values.floats();
        continue;
      }
    }
    copies_.reserve(place, offsets_.back());
    placed_.back().values = copies_.view().sub(offset, part.values.size());
    convert(place, part.values, placed_.back().values);
    copied_ = true;
  }
  return placed_;
}

View<float> FlatGradient::view(Place& place) {
  if (!copied_) return {reinterpret_cast<float*>(origin_), offsets_.back(), place.device()};
  const View<float> flat = copies_.view(offsets_.back());
  for (std::size_t i = 0; i < in_place_.size(); ++i) {
    if (!in_place_[i].empty()) copy(place, in_place_[i], flat.sub(offsets_[i], in_place_[i].size()));
  }
  return flat;
}

}  // namespace laconic
