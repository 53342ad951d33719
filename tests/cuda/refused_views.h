#pragma once

#include <functional>
#include <string>

#include "kernels/topk/topk.h"
#include "laconic/laconic.h"

namespace laconic::test {

/// Views of one device. 64 entries of each type are enough for every call below.
struct Views {
  View<float> floats;
  View<double> doubles;
  View<std::uint32_t> words;
  View<std::uint16_t> halves;
  View<std::uint8_t> widths;
  View<std::byte> bytes;
  StatusView status;

  SparseView entries(std::size_t count) const { return {words.sub(0, count), floats.sub(0, count)}; }
};
inline constexpr std::size_t kSize = 64;

/// A place, views that it takes, and views that lie on another device. Which device is which is the test's choice.
struct RefusedViews {
  Place& place;
  Views near;
  Views far;

  /// Gives a far view to every front door, which must name it in its refusal.
  void check() const;

  void check_elementwise() const;
  void check_descent() const;
  void check_selection() const;
  void check_lists() const;
  void check_fields() const;
  void check_coded() const;
  void check_codecs() const;
  void refused(const std::string& view, const std::function<void()>& call) const;
};

}  // namespace laconic::test
