#include "exchange/packed_vote.h"

namespace laconic {
namespace {

/// Chunks begin with a word of their tensor. Long ones begin where random ties are drawn fastest, which moves a border
/// by far less than a percent of a range.
constexpr std::uint64_t kLongChunk = std::uint64_t{1} << 20;
constexpr std::uint64_t kTieGroup = 64 * kSignsPerWord;

std::uint64_t unit_of(const Layout& layout, int ranks) {
  return layout.size() / static_cast<std::uint64_t>(ranks) >= kLongChunk ? kTieGroup : kSignsPerWord;
}

}  // namespace

PackedVote::PackedVote(Communicator& communicator, Place& place, Layout layout, Ties ties)
    : SignVote(communicator, place, layout, ties, unit_of(layout, communicator.size())),
      words_(static_cast<std::size_t>(size())) {
  lay_out_planes(1);
}

void PackedVote::start(ConstGradientView values, StepKey key, GradientView vote, StatusView status) {
  require_idle();
  start_vote(values, key, vote, status);
}

void PackedVote::write_ranges() {
  for (int owner = 0; owner < size(); ++owner) encode_plane(range_of(values_, owner), owner, send_.slot(owner));
}

void PackedVote::make_own_range() {
  require_payloads_sound(open_planes(received(), words_));
  note_nonfinite(receive_);
  const auto slices = [&](const auto& body) { for_each_own_slice(body); };
  vote(place(), words_, tie_rule(), slices, own_words(returned_.slot(rank())));
  seal_own(returned_.slot(rank()));
}

bool PackedVote::read_ranges() {
  if (!open_planes(returned(), words_)) return false;
  for (int owner = 0; owner < size(); ++owner) {
    unpack_plane(words_[static_cast<std::size_t>(owner)], owner, range_of(vote_, owner));
  }
  return true;
}

}  // namespace laconic
