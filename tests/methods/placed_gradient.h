#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "kernels/convert/convert.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"

namespace laconic::test {

/// Values as a type has them.
inline std::vector<float> rounded_to(NumberType type, std::vector<float> values) {
  if (type == NumberType::float32) return values;
  Place cpu({.threads = 1});
  std::vector<std::uint16_t> words(values.size());
  const GradientView numbers(reinterpret_cast<std::byte*>(words.data()), type, words.size());
  convert(cpu, values, numbers);
  convert(cpu, numbers, values);
  return values;
}

/// A gradient in the memory of a place, in a type of its own: the host copies it in and out.
class PlacedGradient {
 public:
  PlacedGradient(Place& place, const std::vector<float>& values, NumberType type)
      : place_(place), size_(values.size()), type_(type) {
    buffer_.reserve(place, size_ * bytes_of(type));
    std::vector<std::byte> bytes(size_ * bytes_of(type));
    Place cpu({.threads = 1});
    convert(cpu, values, in(bytes));
    copy_from_cpu(place_, bytes.data(), buffer_.view(bytes.size()));
  }
  std::vector<float> get() const {
    std::vector<std::byte> bytes(size_ * bytes_of(type_));
    copy_to_cpu<std::byte>(place_, buffer_.view(bytes.size()), bytes.data());
    std::vector<float> values(size_);
    Place cpu({.threads = 1});
    convert(cpu, in(bytes), values);
    return values;
  }
  GradientView view() const { return {buffer_.view().data(), type_, size_, place_.device()}; }

 private:
  GradientView in(std::vector<std::byte>& bytes) const { return {bytes.data(), type_, size_}; }

  Place& place_;
  std::size_t size_;
  NumberType type_;
  Buffer<std::byte> buffer_;
};

}  // namespace laconic::test
