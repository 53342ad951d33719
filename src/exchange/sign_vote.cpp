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

bool SignVote::decode_plane(View<const std::byte> plane, int owner, GradientView range) {
  return sign::decode(place(), plane, layout_, begin_of(owner), end_of(owner), range, status());
}

bool SignVote::open_own(std::span<const View<const std::byte>> planes, std::span<View<const std::uint32_t>> words) {
  return sign::open(place(), planes, layout_, begin_of(rank()), end_of(rank()), words, status());
}

View<std::uint32_t> SignVote::own_words(View<std::byte> plane) const {
  return sign::body(plane, layout_, begin_of(rank()), end_of(rank()));
}

void SignVote::seal_own(View<std::byte> plane) {
  sign::seal(place(), layout_, begin_of(rank()), end_of(rank()), plane, status());
}

}  // namespace laconic
