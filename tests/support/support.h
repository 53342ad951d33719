#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic::test {

/// Every SIMD level that this machine can run, reference first.
std::vector<SimdLevel> available_levels();

/// Sizes that break loops: 0, 1, around lanes and groups, primes, a million.
std::vector<std::size_t> awkward_sizes();

/// Normal(0, 1) values, the same for the same seed everywhere.
std::vector<float> normal_values(std::size_t n, std::uint64_t seed);

/// Calls to operator new in this process so far; link this library and compare before and after.
std::uint64_t allocation_count();
/// Bytes that the test program holds from operator new; 0 under a sanitizer.
std::uint64_t allocated_bytes();

/// What an exception of that type says, or "(no error)".
template <class Exception, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "(no error)";
}

/// A name that GoogleTest takes: letters, digits and '_'.
inline std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `n` entries between two guard zones; `intact()` tells whether anything wrote into those. `shift` entries (0..15)
/// move the start off the vector alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n, std::size_t shift = 0, T fill = T{})
      : storage_(n + 2 * kGuard, kSentinel), offset_(kGuard - shift % 16), n_(n) {
    std::fill_n(storage_.data() + offset_, n, fill);
  }
  explicit Guarded(const std::vector<T>& values, std::size_t shift = 0) : Guarded(values.size(), shift) {
    for (std::size_t i = 0; i < n_; ++i) storage_[offset_ + i] = values[i];
  }

  View<T> view() { return {storage_.data() + offset_, n_}; }
  std::vector<T> values() const {
    return {storage_.begin() + static_cast<std::ptrdiff_t>(offset_),
            storage_.begin() + static_cast<std::ptrdiff_t>(offset_ + n_)};
  }
  bool intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + n_) && storage_[i] != kSentinel) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr T kSentinel = static_cast<T>(123);

  std::vector<T> storage_;
  std::size_t offset_;
  std::size_t n_;
};

}  // namespace laconic::test
