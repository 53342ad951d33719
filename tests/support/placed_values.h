#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "laconic/place.h"

namespace laconic::test {

/// Values in the memory of a place, as a device's tensor: the host copies them in and out.
class PlacedValues {
 public:
  PlacedValues(Place& place, const std::vector<float>& values) : place_(place), size_(values.size()) {
    buffer_.reserve(place, size_);
    set(values);
  }
  void set(const std::vector<float>& values) { copy_from_cpu(place_, values.data(), view()); }
  std::vector<float> get() const {
    std::vector<float> values(size_);
    copy_to_cpu<float>(place_, view(), values.data());
    return values;
  }
  View<float> view() const { return buffer_.view(size_); }

 private:
  Place& place_;
  std::size_t size_;
  Buffer<float> buffer_;
};

}  // namespace laconic::test
