#pragma once

#include "base/layout.h"
#include "exchange/exchange.h"
#include "kernels/vote/abstain.h"
#include "laconic/key.h"

namespace laconic {

/// A majority vote in which an entry far below the mean magnitude casts no vote: two bits per coordinate each way.
///   1. each rank packs its signs and who abstains, and cuts both into W chunks; all-to-all: 2(W-1)/W·n bits
///   2. each owner votes on its chunk; all-gather of the votes and of where nobody voted: 2(W-1)/W·n bits
///   3. decode: +1, -1, and 0 where nobody voted
///   In total 4(W-1)/W bits per coordinate and 4(W-1) headers of 32 bytes.
class AbstainingVote : public Exchange {
 public:
  AbstainingVote(Communicator& communicator, Place& place, Layout layout, Ties ties);
  ~AbstainingVote() override { abandon(); }

  /// An entry votes if its magnitude is at least `least`. `vote` may be `values`.
  void start(View<const float> values, float least, StepKey key, View<float> vote, StatusView status);

 private:
  Handle stage(int index) override;
  Handle send_ballots();
  Handle vote_on_own_chunk();
  void read_votes();

  std::uint64_t begin_of(int owner) const { return borders_[static_cast<std::size_t>(owner)]; }
  std::uint64_t end_of(int owner) const { return borders_[static_cast<std::size_t>(owner) + 1]; }
  /// A slot holds two sign payloads of this length: the signs, then who abstains.
  std::uint64_t plane_bytes(int owner) const;

  Layout layout_;
  Ties ties_;
  StepKey key_;
  float least_ = 0.0F;
  View<const float> values_;
  View<float> vote_;
  std::vector<std::uint64_t> borders_;
  std::vector<OpenBallot> ballots_;
  std::vector<OpenBallot> piece_;
  Slots send_;
  Slots receive_;
  Slots returned_;
};

}  // namespace laconic
