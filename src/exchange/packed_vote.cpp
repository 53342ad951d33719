#include "exchange/packed_vote.h"

#include "base/check.h"
#include "codecs/sign.h"
#include "kernels/sign/sign.h"

namespace laconic {
namespace {

/// Chunks begin with a word of their tensor. Long ones begin where random ties are drawn fastest, which moves a border
/// by far less than a percent of a chunk.
constexpr std::uint64_t kLongChunk = std::uint64_t{1} << 20;
constexpr std::uint64_t kTieGroup = 64 * kSignsPerWord;

}  // namespace

PackedVote::PackedVote(Communicator& communicator, Place& place, Layout layout, Ties ties)
    : Exchange(communicator, place),
      layout_(std::move(layout)),
      ties_(ties),
      borders_(even_borders(layout_.size(), size())),
      ballots_(static_cast<std::size_t>(size())),
      piece_(static_cast<std::size_t>(size())),
      send_(size()),
      receive_(size()),
      returned_(size()) {
  const std::uint64_t chunk = layout_.size() / static_cast<std::uint64_t>(size());
  for (auto& border : borders_) border = layout_.cut(border, chunk >= kLongChunk ? kTieGroup : kSignsPerWord);
  send_.lay_out([&](int owner) { return sign::max_payload_bytes(layout_, begin_of(owner), end_of(owner)); });
  receive_.lay_out([&](int) { return sign::max_payload_bytes(layout_, begin_of(rank()), end_of(rank())); });
  returned_.lay_out([&](int owner) { return sign::max_payload_bytes(layout_, begin_of(owner), end_of(owner)); });
}

void PackedVote::start(View<const float> values, StepKey key, View<float> vote, StatusView status) {
  require_idle();
  require_size("values", values.size(), layout_.size());
  require_size("vote", vote.size(), layout_.size());
  values_ = values;
  vote_ = vote;
  key_ = key;
  begin(status);
}

Handle PackedVote::stage(int index) {
  if (index == 0) return send_ballots();
  if (index == 1) return vote_on_own_chunk();
  read_votes();
  done();
  return {};
}

Handle PackedVote::send_ballots() {
  {
    const Stopwatch watch(cost().encode_seconds);
    for (int owner = 0; owner < size(); ++owner) {
      sign::encode(place(), values_.sub(begin_of(owner), end_of(owner) - begin_of(owner)), layout_, begin_of(owner),
                   end_of(owner), send_.slot(owner), status());
    }
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

Handle PackedVote::vote_on_own_chunk() {
  {
    const Stopwatch watch(cost().decode_seconds);
    const std::uint64_t begin = begin_of(rank());
    const std::uint64_t end = end_of(rank());
    for (int from = 0; from < size(); ++from) {
      auto& ballot = ballots_[static_cast<std::size_t>(from)];
      if (!sign::open(place(), receive_.payload(from), layout_, begin, end, ballot, status())) break;
      note_nonfinite(receive_.payload(from), from);
    }
    require_payloads_sound();
    const View<std::uint32_t> votes = sign::body(returned_.slot(rank()), layout_, begin, end);
    std::uint64_t word = 0;
    layout_.for_each_slice(begin, end, [&](const Slice& slice) {
      const std::uint64_t words = sign_words(slice.count);
      for (std::size_t i = 0; i < piece_.size(); ++i) piece_[i] = ballots_[i].sub(word, words);
      const RandomStream stream{key_.seed, key_.step, kSharedRank, layout_.number(slice.tensor), Purpose::vote_ties};
      vote(place(), piece_, {ties_, stream, slice.first / kSignsPerWord}, votes.sub(word, words));
      word += words;
    });
    sign::seal(place(), layout_, begin, end, returned_.slot(rank()), status());
  }
  count_gathered(returned_.length(rank()), returned_.payload_bytes());
  return communicator().all_gather_varying(returned_.payload(rank()), returned_.bytes(), returned_.ranges());
}

void PackedVote::read_votes() {
  const Stopwatch watch(cost().decode_seconds);
  const bool culprit_known = status()[0].nonfinite_rank != 0;
  for (int owner = 0; owner < size(); ++owner) {
    const bool sound = sign::decode(place(), returned_.payload(owner), layout_, begin_of(owner), end_of(owner),
                                    vote_.sub(begin_of(owner), end_of(owner) - begin_of(owner)), status());
    if (sound && !culprit_known) note_nonfinite(returned_.payload(owner), owner);
  }
  require_payloads_sound();
}

}  // namespace laconic
