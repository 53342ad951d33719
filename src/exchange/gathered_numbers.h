#pragma once

#include "exchange/exchange.h"

namespace laconic {

/// A few numbers of every rank on every rank: scores, norms, losses. One all-gather: 4·count·(W-1) bytes sent.
/// Too few to be worth a header; they come as they were sent.
class GatheredNumbers : public Exchange {
 public:
  GatheredNumbers(Communicator& communicator, Place& place, std::size_t count);
  ~GatheredNumbers() override { abandon(); }

  void start(View<const float> mine, StatusView status);

  /// After finish: what a rank sent.
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
