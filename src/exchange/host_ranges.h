#pragma once

#include "exchange/exchange.h"

namespace laconic {

// The two halves of a dense mean (dense_sum.h), for a caller that does something with its range in between. Ranges are
// those of even_borders. Views may have another size in each start; memory only grows.

/// Each rank ends with the mean over all ranks of its own range. W ranks, n values:
///   1. encode W ranges of n/W values in float32; all-to-all: (W-1)/W·n·4 bytes sent, and W-1 headers of 32 bytes
///   2. add the own range's W payloads in rank order, divide by W
class ScatteredMean : public Exchange {
 public:
  ScatteredMean(Communicator& communicator, Place& place);
  ~ScatteredMean() override { abandon(); }

  /// `own` is as long as this rank's range of `values`.
  void start(View<const float> values, View<float> own, StatusView status);

 private:
  Handle stage(int index) override;
  Handle send_ranges();
  void add_in_rank_order();

  std::vector<std::uint64_t> borders_;
  Slots send_;
  Slots receive_;
  View<const float> values_;
  View<float> own_;
};

/// Each rank ends with the ranges of all ranks. W ranks, n values:
///   1. encode the own range in float32; all-gather: (W-1)/W·n·4 bytes sent, and W-1 headers of 32 bytes
///   2. decode all ranges
class GatheredRanges : public Exchange {
 public:
  GatheredRanges(Communicator& communicator, Place& place);
  ~GatheredRanges() override { abandon(); }

  /// `own` is as long as this rank's range of `values`.
  void start(View<const float> own, View<float> values, StatusView status);

 private:
  Handle stage(int index) override;
  Handle send_own();
  void read_ranges();

  std::vector<std::uint64_t> borders_;
  Slots slots_;
  View<const float> own_;
  View<float> values_;
};

}  // namespace laconic
