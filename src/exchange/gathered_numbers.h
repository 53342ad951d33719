#pragma once

#include "exchange/exchange.h"

namespace laconic {

/// Gathers a few numbers of every rank on every rank: scores, norms, losses. One all-gather: 4·count·(W-1) bytes sent.
/// They are too few to be worth a header, so they are sent as plain floats.
class GatheredNumbers : public Exchange {
 public:
  GatheredNumbers(Communicator& communicator, Place& place, std::size_t count);
  ~GatheredNumbers() override { abandon(); }

  void start(View<const float> mine, StatusView status);

  /// After finish: the numbers that a rank sent.
  View<const float> of(int rank) const {
    return View<const float>(all_).sub(static_cast<std::size_t>(rank) * count_, count_);
  }

 private:
  Handle stage(int index) override;

  std::size_t count_;
  std::vector<float> mine_;
  std::vector<float> all_;
};

}  // namespace laconic
