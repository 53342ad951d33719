#pragma once

#include "base/layout.h"
#include "exchange/exchange.h"
#include "kernels/vote/vote.h"
#include "laconic/key.h"

namespace laconic {

/// Majority vote on signs, with one bit per coordinate both ways and without a server (Bernstein et al. 2019).
///   1. each rank packs its signs and cuts them into W chunks; all-to-all: (W-1)/W·n bits
///   2. each owner votes on its chunk's W ballots word by word; all-gather of the votes: (W-1)/W·n bits
///   3. decode all chunks to +1 and -1
///   In total 2(W-1)/W bits per coordinate and 2(W-1) headers of 32 bytes; each tensor's signs begin a new word.
/// The rule decides ties. Random ties are drawn by (seed, step, tensor, index), the same on every rank.
class PackedVote : public Exchange {
 public:
  PackedVote(Communicator& communicator, Place& place, Layout layout, Ties ties = Ties::random);
  ~PackedVote() override { abandon(); }

  /// `values` are this rank's; `vote` receives ±1 and may be `values`. key.rank is not used, because votes are shared.
  void start(View<const float> values, StepKey key, View<float> vote, StatusView status);

 private:
  Handle stage(int index) override;
  Handle send_ballots();
  Handle vote_on_own_chunk();
  void read_votes();

  std::uint64_t begin_of(int owner) const { return borders_[static_cast<std::size_t>(owner)]; }
  std::uint64_t end_of(int owner) const { return borders_[static_cast<std::size_t>(owner) + 1]; }

  Layout layout_;
  Ties ties_;
  StepKey key_;
  View<const float> values_;
  View<float> vote_;
  std::vector<std::uint64_t> borders_;
  std::vector<View<const std::uint32_t>> ballots_;
  std::vector<View<const std::uint32_t>> piece_;
  Slots send_;
  Slots receive_;
  Slots returned_;
};

}  // namespace laconic
