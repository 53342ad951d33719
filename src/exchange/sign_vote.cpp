#include "exchange/sign_vote.h"

#include "base/check.h"

namespace laconic {

SignVote::SignVote(Communicator& communicator, Place& place, Layout layout, Ties ties, std::uint64_t unit)
    : OwnerExchange(communicator, place), layout_(std::move(layout)), ties_(ties) {
  cut_evenly(layout_, unit);
}

void SignVote::lay_out_planes(std::uint64_t planes) {
  lay_out([&](int owner) { return planes * plane_bytes(owner); });
}

void SignVote::start_vote(ConstGradientView values, StepKey key, GradientView vote, StatusView status) {
  require_size("values", values.size(), layout_.size());
  require_size("vote", vote.size(), layout_.size());
  values_ = values;
  vote_ = vote;
  key_ = key;
  begin(status);
}

std::uint64_t SignVote::plane_bytes(int owner) const {
  return sign::max_payload_bytes(layout_, begin_of(owner), end_of(owner));
}

void SignVote::encode_plane(ConstGradientView range, int owner, View<std::byte> plane) {
  sign::encode(place(), range, layout_, begin_of(owner), end_of(owner), plane, status());
}

bool SignVote::open_planes(std::span<const ReceivedRange> planes, std::span<View<const std::uint32_t>> words) {
  return sign::open(place(), planes, layout_, words, status());
}

void SignVote::unpack_plane(View<const std::uint32_t> words, int owner, GradientView range) {
  sign::unpack(place(), words, layout_, begin_of(owner), end_of(owner), range);
}

View<std::uint32_t> SignVote::own_words(View<std::byte> plane) const {
  return sign::body(plane, layout_, begin_of(rank()), end_of(rank()));
}

void SignVote::seal_own(View<std::byte> plane) {
  sign::seal(place(), layout_, begin_of(rank()), end_of(rank()), plane, status());
}

}  // namespace laconic
