#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "laconic/place.h"
#include "support/guard_zones.h"

namespace laconic::test {

/// A copy of values in the memory of a place, whatever its device, between guard zones. `shift` entries move its start
/// off the alignment.
template <class T>
class Placed {
 public:
  Placed(Place& place, const std::vector<T>& values, std::size_t shift = 0)
      : place_(place), offset_(kGuard + shift), n_(values.size()) {
    std::vector<T> all(n_ + 2 * offset_);
    std::memset(static_cast<void*>(all.data()), kGuardByte, all.size() * sizeof(T));
    std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(offset_));
    buffer_.reserve(place, all.size());
    copy_from_cpu(place, all.data(), buffer_.view(all.size()));
  }

  View<T> view() const { return buffer_.view(n_ + 2 * offset_).sub(offset_, n_); }
  std::vector<T> values() const {
    std::vector<T> found(n_);
    copy_to_cpu<T>(place_, view(), found.data());
    return found;
  }
  /// Whether the guard zones are as they were.
  bool intact() const {
    std::vector<T> all(n_ + 2 * offset_);
    copy_to_cpu<T>(place_, buffer_.view(all.size()), all.data());
    return guards_intact(all, offset_, n_);
  }

 private:
  static constexpr std::size_t kGuard = 16;

  Place& place_;
  std::size_t offset_;
  std::size_t n_;
  Buffer<T> buffer_;
};

/// Values as a place reads them: themselves in CPU memory, else a copy.
template <class T>
class Given {
 public:
  Given(Place& place, const std::vector<T>& values, std::size_t shift = 0) : here_(values) {
    if (place.queue() != nullptr) copy_.emplace(place, values, shift);
  }
  View<const T> view() const { return copy_.has_value() ? View<const T>(copy_->view()) : here_; }

 private:
  View<const T> here_;
  std::optional<Placed<T>> copy_;
};

}  // namespace laconic::test
