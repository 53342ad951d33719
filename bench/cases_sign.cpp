#include <algorithm>
#include <array>

#include "base/philox.h"
#include "bench/cases.h"
#include "bench/streams.h"
#include "kernels/sign/sign.h"
#include "kernels/vote/vote.h"

#if LACONIC_TORCH
#include "torch/train/baselines.h"
#endif

namespace laconic::bench {
namespace {

#if LACONIC_TORCH
View<const std::uint8_t> as_octets(View<const std::uint32_t> words) {
  return {reinterpret_cast<const std::uint8_t*>(words.data()), words.size_bytes()};
}
#endif

class Pack {
 public:
  explicit Pack(const Inputs& inputs) : values_(inputs.gradient()), words_(sign_words(values_.size())) {}

  void prepare() {}
  void run(Place& place) {
    Status status;
    pack_signs(place, values_, words_.view(), view_of(status));
  }
  void stream(ThreadPool& pool) { stream_read(pool, as_bytes(values_)); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(words_.view())}; }

#if LACONIC_TORCH
  // Torch packs eight to a byte, so what goes beyond whole bytes is left to others.
  void torch() {
    torch_bytes_.reserve(values_.size() / 8);
    torch_baselines::sign_pack(values_.sub(0, values_.size() / 8 * 8), torch_bytes_.view());
  }
  std::string torch_wrong() const {
    const auto theirs = torch_bytes_.view();
    return std::equal(theirs.begin(), theirs.end(), as_octets(words_.view()).begin()) ? "" : "other bits";
  }
#endif

 private:
  View<const float> values_;
  Buffer<std::uint32_t> words_;
#if LACONIC_TORCH
  Buffer<std::uint8_t> torch_bytes_;
#endif
};

class Unpack {
 public:
  explicit Unpack(const Inputs& inputs) : words_(sign_words(inputs.n())), values_(inputs.n()) {
    Status status;
    pack_signs(inputs.place(), inputs.gradient(), words_.view(), view_of(status));
  }

  void prepare() {}
  void run(Place& place) { unpack_signs(place, words_.view(), 1.0F, values_.view()); }
  void stream(ThreadPool& pool) { stream_write(pool, values_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(values_.view())}; }

 private:
  Buffer<std::uint32_t> words_;
  Buffer<float> values_;
};

class Vote {
 public:
  explicit Vote(const Inputs& inputs) : out_(sign_words(inputs.n())) {
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      ballots_[worker].resize(out_.capacity());
      const RandomStream stream{.seed = worker, .purpose = Purpose::test};
      for (std::size_t i = 0; i < ballots_[worker].size(); ++i) ballots_[worker][i] = draw32(stream, i);
      views_[worker] = ballots_[worker];
      bytes_[worker] = as_bytes(views_[worker]);
    }
  }

  void prepare() {}
  void run(Place& place) {
    vote(place, views_, TieRule{Ties::random, {.purpose = Purpose::vote_ties}, 0}, out_.view());
  }
  void stream(ThreadPool& pool) { stream_read_all(pool, bytes_); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

#if LACONIC_TORCH
  void torch() {
    torch_out_.reserve(out_.capacity() * 4);
    std::array<View<const std::uint8_t>, kWorkers> octets;
    for (std::size_t i = 0; i < kWorkers; ++i) octets[i] = as_octets(views_[i]);
    torch_baselines::vote(octets, torch_out_.view());
  }
  std::string torch_wrong() {
    Place place;
    vote(place, views_, TieRule{Ties::plus, {}, 0}, out_.view());
    const auto theirs = torch_out_.view();
    return std::equal(theirs.begin(), theirs.end(), as_octets(out_.view()).begin()) ? "" : "other votes";
  }
#endif

 private:
  static constexpr std::size_t kWorkers = 8;
  std::array<std::vector<std::uint32_t>, kWorkers> ballots_;
  std::array<View<const std::uint32_t>, kWorkers> views_;
  std::array<View<const std::byte>, kWorkers> bytes_;
  Buffer<std::uint32_t> out_;
#if LACONIC_TORCH
  Buffer<std::uint8_t> torch_out_;
#endif
};

}  // namespace

std::vector<KernelEntry> sign_cases() {
  return {
      {"sign_pack", "read the values", make_case<Pack>},
      {"sign_unpack", "write the values", make_case<Unpack>},
      {"vote", "read the words of all 8 workers", make_case<Vote>},
  };
}

}  // namespace laconic::bench
