#include "exchange/abstaining_vote.h"

#include "base/check.h"
#include "base/workspace.h"
#include "codecs/sign.h"
#include "kernels/sign/sign.h"

namespace laconic {

AbstainingVote::AbstainingVote(Communicator& communicator, Place& place, Layout layout, Ties ties)
    : Exchange(communicator, place),
      layout_(std::move(layout)),
      ties_(ties),
      borders_(even_borders(layout_.size(), size())),
      ballots_(static_cast<std::size_t>(size())),
      piece_(static_cast<std::size_t>(size())),
      send_(size()),
      receive_(size()),
      returned_(size()) {
  for (auto& border : borders_) border = layout_.cut(border, kSignsPerWord);
  send_.lay_out([&](int owner) { return 2 * plane_bytes(owner); });
  receive_.lay_out([&](int) { return 2 * plane_bytes(rank()); });
  returned_.lay_out([&](int owner) { return 2 * plane_bytes(owner); });
}

std::uint64_t AbstainingVote::plane_bytes(int owner) const {
  return sign::max_payload_bytes(layout_, begin_of(owner), end_of(owner));
}

void AbstainingVote::start(View<const float> values, float least, StepKey key, View<float> vote, StatusView status) {
  require_idle();
  require_size("values", values.size(), layout_.size());
  require_size("vote", vote.size(), layout_.size());
  values_ = values;
  least_ = least;
  vote_ = vote;
  key_ = key;
  begin(status);
}

Handle AbstainingVote::stage(int index) {
  if (index == 0) return send_ballots();
  if (index == 1) return vote_on_own_chunk();
  read_votes();
  done();
  return {};
}

Handle AbstainingVote::send_ballots() {
  {
    const Stopwatch watch(cost().encode_seconds);
    // Who abstains is the sign of how far a magnitude is above the least one.
    const Workspace::Scope scope(place().workspace());
    const View<float> margins = place().workspace().take<float>(values_.size());
    abstention_margins(place(), values_, least_, margins);
    for (int owner = 0; owner < size(); ++owner) {
      const std::uint64_t begin = begin_of(owner);
      const std::uint64_t end = end_of(owner);
      const std::uint64_t bytes = plane_bytes(owner);
      const View<std::byte> slot = send_.slot(owner);
      sign::encode(place(), values_.sub(begin, end - begin), layout_, begin, end, slot.sub(0, bytes), status());
      sign::encode(place(), margins.sub(begin, end - begin), layout_, begin, end, slot.sub(bytes, bytes), status());
    }
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

Handle AbstainingVote::vote_on_own_chunk() {
  {
    const Stopwatch watch(cost().decode_seconds);
    const std::uint64_t begin = begin_of(rank());
    const std::uint64_t end = end_of(rank());
    const std::uint64_t bytes = plane_bytes(rank());
    for (int from = 0; from < size(); ++from) {
      OpenBallot& ballot = ballots_[static_cast<std::size_t>(from)];
      const auto payload = receive_.payload(from);
      if (!sign::open(place(), payload.sub(0, bytes), layout_, begin, end, ballot.signs, status())) break;
      if (!sign::open(place(), payload.sub(bytes, bytes), layout_, begin, end, ballot.abstains, status())) break;
      note_nonfinite(payload, from);
    }
    require_payloads_sound();
    const View<std::byte> slot = returned_.slot(rank());
    const auto signs = sign::body(slot.sub(0, bytes), layout_, begin, end);
    const auto abstains = sign::body(slot.sub(bytes, bytes), layout_, begin, end);
    std::uint64_t word = 0;
    layout_.for_each_slice(begin, end, [&](const Slice& slice) {
      const std::uint64_t words = sign_words(slice.count);
      for (std::size_t i = 0; i < piece_.size(); ++i) {
        piece_[i] = {ballots_[i].signs.sub(word, words), ballots_[i].abstains.sub(word, words)};
      }
      const RandomStream stream{key_.seed, key_.step, kSharedRank, layout_.number(slice.tensor), Purpose::vote_ties};
      vote_with_abstentions(place(), piece_, {ties_, stream, slice.first / kSignsPerWord}, signs.sub(word, words),
                            abstains.sub(word, words));
      word += words;
    });
    sign::seal(place(), layout_, begin, end, slot.sub(0, bytes), status());
    sign::seal(place(), layout_, begin, end, slot.sub(bytes, bytes), status());
  }
  count_gathered(returned_.length(rank()), returned_.payload_bytes());
  return communicator().all_gather_varying(returned_.payload(rank()), returned_.bytes(), returned_.ranges());
}

void AbstainingVote::read_votes() {
  const Stopwatch watch(cost().decode_seconds);
  const bool culprit_known = status()[0].nonfinite_rank != 0;
  const Workspace::Scope scope(place().workspace());
  const View<float> nobody = place().workspace().take<float>(vote_.size());  // -1 where nobody voted
  for (int owner = 0; owner < size(); ++owner) {
    const std::uint64_t begin = begin_of(owner);
    const std::uint64_t end = end_of(owner);
    const std::uint64_t bytes = plane_bytes(owner);
    const auto payload = returned_.payload(owner);
    if (!sign::decode(place(), payload.sub(0, bytes), layout_, begin, end, vote_.sub(begin, end - begin), status()) ||
        !sign::decode(place(), payload.sub(bytes, bytes), layout_, begin, end, nobody.sub(begin, end - begin),
                      status())) {
      break;
    }
    if (!culprit_known) note_nonfinite(payload, owner);
  }
  require_payloads_sound();
  silence(place(), nobody, vote_);
}

}  // namespace laconic
