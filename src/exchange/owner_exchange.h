#pragma once

#include <utility>

#include "base/layout.h"
#include "exchange/exchange.h"

namespace laconic {

/// An exchange in which each rank owns a range of the view. The steps that its subclasses share:
///   1. each rank writes one payload per owner; all-to-all
///   2. each owner makes the result of its range from the payloads of all ranks; all-gather
///   3. each rank reads the results of all owners
class OwnerExchange : public Exchange {
 public:
  ~OwnerExchange() override { abandon(); }

 protected:
  OwnerExchange(Communicator& communicator, Place& place);

  Handle stage(int index) override;

  /// Writes this rank's payload for each owner into send_.
  virtual void write_ranges() = 0;
  /// Reads receive_ and writes this rank's slot of returned_.
  virtual void make_own_range() = 0;
  /// Reads the results of all owners from returned_. False on a fault, which the status then describes.
  virtual bool read_ranges() = 0;

  /// The payloads of all ranks for this rank's own range, and of all owners for theirs.
  std::span<const ReceivedRange> received() {
    return receive_.arrived([&](int) { return borders_of(rank()); });
  }
  std::span<const ReceivedRange> returned() {
    return returned_.arrived([&](int owner) { return borders_of(owner); });
  }

  /// Nearly the same number of entries for each owner; a range begins at a multiple of `unit` entries of a tensor.
  void cut_evenly(const Layout& layout, std::uint64_t unit);

  /// Room for payloads whose size depends only on the owner, there and back.
  template <class BytesOf>
  void lay_out(BytesOf&& bytes_of) {
    send_.lay_out(bytes_of);
    receive_.lay_out([&](int) { return bytes_of(rank()); });
    returned_.lay_out(bytes_of);
  }

  std::uint64_t begin_of(int owner) const { return borders_[static_cast<std::size_t>(owner)]; }
  std::uint64_t end_of(int owner) const { return borders_[static_cast<std::size_t>(owner) + 1]; }
  std::uint64_t count_of(int owner) const { return end_of(owner) - begin_of(owner); }
  std::pair<std::uint64_t, std::uint64_t> borders_of(int owner) const { return {begin_of(owner), end_of(owner)}; }
  /// An owner's range of a view of all entries.
  template <class Values>
  Values range_of(const Values& values, int owner) const {
    return values.sub(begin_of(owner), count_of(owner));
  }

  std::vector<std::uint64_t> borders_;
  Slots send_;
  Slots receive_;
  Slots returned_;

 private:
  Handle send_ranges();
  Handle return_own_range();
  void finish_ranges();
};

}  // namespace laconic
