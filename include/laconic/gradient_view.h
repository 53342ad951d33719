#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "laconic/view.h"

namespace laconic {

/// How an entry of a gradient is stored.
enum class NumberType : std::uint8_t { float32, float16, bfloat16 };

constexpr std::size_t bytes_of(NumberType type) { return type == NumberType::float32 ? 4 : 2; }

/// A gradient where the training loop has it, in the loop's own type. Methods compute in float32: an entry of 16 bits is
/// widened when it is read, and rounded to nearest, ties to even, when the aggregate is written in its place. An
/// aggregate that float16 cannot hold becomes Inf there, and the step counts all the same. Entries lie at multiples of
/// their size. A view of floats is also a view of a gradient.
template <class Byte>
class BasicGradientView {
  static constexpr bool kConst = std::is_const_v<Byte>;

 public:
  using Float = std::conditional_t<kConst, const float, float>;
  using Word = std::conditional_t<kConst, const std::uint16_t, std::uint16_t>;

  constexpr BasicGradientView() = default;
  BasicGradientView(Byte* data, NumberType type, std::size_t size, Device device = Device::cpu)
      : data_(data), size_(size), device_(device), type_(type) {}

  template <class T>
  requires(std::is_same_v<T, float> || (kConst && std::is_same_v<T, const float>)) BasicGradientView(View<T> floats)
      : BasicGradientView(reinterpret_cast<Byte*>(floats.data()), NumberType::float32, floats.size(),
                          floats.device()) {}
  template <class A>
  BasicGradientView(std::vector<float, A>& floats) : BasicGradientView(View<float>(floats)) {}
  template <class A>
  requires(kConst) BasicGradientView(const std::vector<float, A>& floats)
      : BasicGradientView(View<const float>(floats)) {}
  template <class Other>
  requires(kConst && std::is_same_v<Other, std::byte>) BasicGradientView(const BasicGradientView<Other>& other)
      : BasicGradientView(other.data(), other.type(), other.size(), other.device()) {}

  Byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t size_bytes() const { return size_ * bytes_of(type_); }
  bool empty() const { return size_ == 0; }
  Device device() const { return device_; }
  NumberType type() const { return type_; }
  bool is_float32() const { return type_ == NumberType::float32; }

  /// The `count` entries that begin at `offset`. The caller must make sure that they exist.
  BasicGradientView sub(std::size_t offset, std::size_t count) const {
    return {data_ + offset * bytes_of(type_), type_, count, device_};
  }

  /// The entries of a view whose type is float32.
  View<Float> floats() const { return {reinterpret_cast<Float*>(data_), size_, device_}; }
  /// The entries of a view whose type has 16 bits.
  View<Word> words() const { return {reinterpret_cast<Word*>(data_), size_, device_}; }

 private:
  Byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_ = Device::cpu;
  NumberType type_ = NumberType::float32;
};

using GradientView = BasicGradientView<std::byte>;
using ConstGradientView = BasicGradientView<const std::byte>;

}  // namespace laconic
