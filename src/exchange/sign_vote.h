#pragma once

#include "codecs/sign.h"
#include "exchange/owner_exchange.h"
#include "kernels/sign/sign.h"
#include "kernels/vote/vote.h"
#include "laconic/key.h"

namespace laconic {

/// What votes on signs share: planes of one bit per entry, which the owners count. A payload is one plane or several,
/// all of the same length.
class SignVote : public OwnerExchange {
 protected:
  /// Each range begins at a multiple of `unit` entries of a tensor.
  SignVote(Communicator& communicator, Place& place, Layout layout, Ties ties, std::uint64_t unit);

  void lay_out_planes(std::uint64_t planes);
  void start_vote(ConstGradientView values, StepKey key, GradientView vote, StatusView status);

  std::uint64_t plane_bytes(int owner) const;
  /// `range` has the owner's entries alone.
  void encode_plane(ConstGradientView range, int owner, View<std::byte> plane);
  bool open_planes(std::span<const ReceivedRange> planes, std::span<View<const std::uint32_t>> words);
  void unpack_plane(View<const std::uint32_t> words, int owner, GradientView range);

  // A plane of this rank's own range: words to write the result into, before it is sealed.
  View<std::uint32_t> own_words(View<std::byte> plane) const;
  void seal_own(View<std::byte> plane);

  /// Calls body(VoteSlice) for each tensor that this rank's own range touches. Their ties are drawn by `tie_rule`.
  template <class Body>
  void for_each_own_slice(Body&& body) const {
    std::uint64_t word = 0;
    layout_.for_each_slice(begin_of(rank()), end_of(rank()), [&](const Slice& slice) {
      const std::uint64_t words = sign_words(slice.count);
      body(VoteSlice{word, words, layout_.number(slice.tensor), slice.first / kSignsPerWord});
      word += words;
    });
  }
  TieRule tie_rule() const { return {ties_, {key_.seed, key_.step, kSharedRank, 0, Purpose::vote_ties}, 0}; }

  ConstGradientView values_;
  GradientView vote_;

 private:
  Layout layout_;
  Ties ties_;
  StepKey key_;
};

}  // namespace laconic
