#pragma once

#include "exchange/sign_vote.h"
#include "kernels/vote/abstain.h"

namespace laconic {

/// A majority vote in which an entry far below the mean magnitude casts no vote: two bits per coordinate each way.
///   1. each rank packs its signs and who abstains, and cuts both into W ranges; all-to-all: 2(W-1)/W·n bits
///   2. each owner votes on its range; all-gather of the votes and of where nobody voted: 2(W-1)/W·n bits
///   3. decode: +1, -1, and 0 where nobody voted
///   In total 4(W-1)/W bits per coordinate and 4(W-1) headers of 32 bytes.
class AbstainingVote : public SignVote {
 public:
  AbstainingVote(Communicator& communicator, Place& place, Layout layout, Ties ties);

  /// An entry votes if its magnitude is at least `least`. `vote` may be `values`.
  void start(View<const float> values, float least, StepKey key, View<float> vote, StatusView status);

 private:
  void write_ranges() override;
  void make_own_range() override;
  bool read_ranges() override;
  bool open_both(std::span<const ReceivedRange> payloads);

  float least_ = 0.0F;
  std::vector<ReceivedRange> planes_;             ///< two of each payload
  std::vector<View<const std::uint32_t>> words_;  ///< of the planes
  std::vector<OpenBallot> ballots_;
};

}  // namespace laconic
