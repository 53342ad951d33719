#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace laconic {

/// The device where memory lies and where work on it runs.
enum class Device : std::uint8_t { cpu, cuda };

const char* device_name(Device device);

/// Contiguous memory that belongs to someone else, and the device on which it lies. Cheap to copy; owns nothing.
template <class T>
class View {
 public:
  constexpr View() = default;
  constexpr View(T* data, std::size_t size, Device device = Device::cpu) : data_(data), size_(size), device_(device) {}

  /// A view of T is also a view of const T.
  template <class U>
  requires(std::is_same_v<const U, T>) constexpr View(View<U> other)
      : View(other.data(), other.size(), other.device()) {}

  template <class U, class A>
  requires(std::is_same_v<std::remove_const_t<T>, U>) View(std::vector<U, A>& values)
      : View(values.data(), values.size()) {}

  template <class U, class A>
  requires(std::is_same_v<const U, T>) View(const std::vector<U, A>& values) : View(values.data(), values.size()) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr Device device() const { return device_; }

  constexpr T& operator[](std::size_t index) const { return data_[index]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }

  /// The `count` entries that begin at `offset`. The caller must make sure that they exist.
  constexpr View sub(std::size_t offset, std::size_t count) const { return View(data_ + offset, count, device_); }

  constexpr std::span<T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_ = Device::cpu;
};

template <class T>
View<const std::byte> as_bytes(View<T> view) {
  return {reinterpret_cast<const std::byte*>(view.data()), view.size_bytes(), view.device()};
}

template <class T>
requires(!std::is_const_v<T>) View<std::byte> as_writable_bytes(View<T> view) {
  return {reinterpret_cast<std::byte*>(view.data()), view.size_bytes(), view.device()};
}

}  // namespace laconic
