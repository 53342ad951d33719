#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace laconic::test {

/// All that a run showed, as bytes.
class Trace {
 public:
  void note(const std::vector<float>& values) {
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), begin, begin + values.size() * sizeof(float));
  }
  void note(const std::vector<std::byte>& bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void note(double value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  /// Where two traces part; nothing if they are equal.
  static std::optional<std::size_t> difference(const Trace& one, const Trace& other) {
    const auto [first, second] =
        std::mismatch(one.bytes_.begin(), one.bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    if (first == one.bytes_.end() && second == other.bytes_.end()) return std::nullopt;
    return static_cast<std::size_t>(first - one.bytes_.begin());
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace laconic::test
