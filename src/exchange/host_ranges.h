#pragma once

#include <utility>

#include "exchange/exchange.h"
#include "laconic/gradient_view.h"

namespace laconic {

// The two halves of a dense mean (dense_sum.h), for a caller that does something with its range in between. Ranges are
// those of even_borders. Views may have another size in each start; memory only grows, and never if it was reserved.

/// What both halves have: even ranges of a view, one per rank, and a message that all send at the start.
class RangeExchange : public Exchange {
 protected:
  RangeExchange(Communicator& communicator, Place& place)
      : Exchange(communicator, place), borders_(static_cast<std::size_t>(size()) + 1) {}

  std::uint64_t most_bytes(std::uint64_t entries) const;
  /// Cuts views of as many entries as `values`. Throws InvalidConfig unless `own` is as long as this rank's range.
  void cut(ConstGradientView values, View<const float> own);
  std::span<const std::uint64_t> borders() const { return borders_; }
  std::pair<std::uint64_t, std::uint64_t> borders_of(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return {borders_[i], borders_[i + 1]};
  }

 private:
  Handle stage(int index) final;
  virtual Handle send() = 0;
  virtual void receive() = 0;

  std::vector<std::uint64_t> borders_;
};

/// Each rank ends with the mean over all ranks of its own range. W ranks, n values:
///   1. encode W ranges of n/W values in float32; all-to-all: (W-1)/W·n·4 bytes sent, and W-1 headers of 32 bytes
///   2. add the own range's W payloads in rank order, divide by W
class ScatteredMean : public RangeExchange {
 public:
  ScatteredMean(Communicator& communicator, Place& place);
  ~ScatteredMean() override { abandon(); }

  /// Makes room for views of up to that many entries.
  void reserve(std::uint64_t entries);

  /// `own` is as long as this rank's range of `values`.
  void start(ConstGradientView values, View<float> own, StatusView status);

 private:
  Handle send() override;
  /// Adds in rank order.
  void receive() override;

  Slots send_;
  Slots receive_;
  std::vector<ConstGradientView> parts_;  ///< of the own range, by rank
  ConstGradientView values_;
  View<float> own_;
};

/// Each rank ends with the ranges of all ranks. W ranks, n values:
///   1. encode the own range in float32; all-gather: (W-1)/W·n·4 bytes sent, and W-1 headers of 32 bytes
///   2. decode all ranges
class GatheredRanges : public RangeExchange {
 public:
  GatheredRanges(Communicator& communicator, Place& place);
  ~GatheredRanges() override { abandon(); }

  /// Makes room for views of up to that many entries.
  void reserve(std::uint64_t entries) { slots_.reserve(most_bytes(entries)); }

  /// `own` is as long as this rank's range of `values`.
  void start(View<const float> own, GradientView values, StatusView status);

 private:
  Handle send() override;
  void receive() override;

  Slots slots_;
  View<const float> own_;
  GradientView values_;
};

}  // namespace laconic
