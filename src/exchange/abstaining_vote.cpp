#include "exchange/abstaining_vote.h"

#include "base/workspace.h"

namespace laconic {
namespace {

/// A payload has two planes: the signs, then who abstains.
template <class Bytes>
View<Bytes> signs_in(View<Bytes> payload) {
  return payload.sub(0, payload.size() / 2);
}
template <class Bytes>
View<Bytes> abstains_in(View<Bytes> payload) {
  return payload.sub(payload.size() / 2, payload.size() / 2);
}

}  // namespace

AbstainingVote::AbstainingVote(Communicator& communicator, Place& place, Layout layout, Ties ties)
    : SignVote(communicator, place, std::move(layout), ties, kSignsPerWord),
      planes_(2 * static_cast<std::size_t>(size())),
      words_(planes_.size()),
      ballots_(static_cast<std::size_t>(size())) {
  lay_out_planes(2);
}

void AbstainingVote::start(View<const float> values, float least, StepKey key, View<float> vote, StatusView status) {
  require_idle();
  least_ = least;
  start_vote(values, key, vote, status);
}

void AbstainingVote::write_ranges() {
  // Who abstains is the sign of how far a magnitude is above the least one.
  const Workspace::Scope scope(place().workspace());
  const View<float> margins = place().workspace().take<float>(values_.size());
  abstention_margins(place(), values_.floats(), least_, margins);
  for (int owner = 0; owner < size(); ++owner) {
    encode_plane(range_of(values_, owner), owner, signs_in(send_.slot(owner)));
    encode_plane(range_of(margins, owner), owner, abstains_in(send_.slot(owner)));
  }
}

bool AbstainingVote::open_both(std::span<const ReceivedRange> payloads) {
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    planes_[2 * i] = {signs_in(payloads[i].payload), payloads[i].begin, payloads[i].end};
    planes_[2 * i + 1] = {abstains_in(payloads[i].payload), payloads[i].begin, payloads[i].end};
  }
  if (!open_planes(planes_, words_)) return false;
  for (std::size_t i = 0; i < payloads.size(); ++i) ballots_[i] = {words_[2 * i], words_[2 * i + 1]};
  return true;
}

void AbstainingVote::make_own_range() {
  require_payloads_sound(open_both(received()));
  note_nonfinite(receive_);
  const View<std::byte> slot = returned_.slot(rank());
  const auto slices = [&](const auto& body) { for_each_own_slice(body); };
  vote_with_abstentions(place(), ballots_, tie_rule(), slices, own_words(signs_in(slot)), own_words(abstains_in(slot)));
  seal_own(signs_in(slot));
  seal_own(abstains_in(slot));
}

bool AbstainingVote::read_ranges() {
  if (!open_both(returned())) return false;
  for (int owner = 0; owner < size(); ++owner) {
    const Workspace::Scope scope(place().workspace());
    const View<float> nobody = place().workspace().take<float>(count_of(owner));  // -1 where nobody voted
    const View<float> vote = range_of(vote_.floats(), owner);
    const OpenBallot& ballot = ballots_[static_cast<std::size_t>(owner)];
    unpack_plane(ballot.signs, owner, vote);
    unpack_plane(ballot.abstains, owner, nobody);
    silence(place(), nobody, vote);
  }
  return true;
}

}  // namespace laconic
