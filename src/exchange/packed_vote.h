#pragma once

#include "exchange/sign_vote.h"

namespace laconic {

/// Majority vote on signs, with one bit per coordinate both ways and without a server (Bernstein et al. 2019).
///   1. each rank packs its signs and cuts them into W ranges; all-to-all: (W-1)/W·n bits
///   2. each owner votes on its range's W ballots word by word; all-gather of the votes: (W-1)/W·n bits
///   3. decode all ranges to +1 and -1
///   In total 2(W-1)/W bits per coordinate and 2(W-1) headers of 32 bytes; each tensor's signs begin a new word.
/// The rule decides ties. Random ties are drawn by (seed, step, tensor, index), the same on every rank.
class PackedVote : public SignVote {
 public:
  PackedVote(Communicator& communicator, Place& place, Layout layout, Ties ties = Ties::random);

  /// `values` are this rank's; `vote` receives ±1 and may be `values`. key.rank is not used, because votes are shared.
  void start(ConstGradientView values, StepKey key, GradientView vote, StatusView status);

 private:
  void write_ranges() override;
  void make_own_range() override;
  bool read_ranges() override;

  std::vector<View<const std::uint32_t>> words_;  ///< of the ballots, by rank; then of the votes, by owner
};

}  // namespace laconic
