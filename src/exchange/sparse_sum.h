#pragma once

#include "base/buffer.h"
#include "codecs/sparse.h"
#include "exchange/exchange.h"
#include "exchange/sparse_borders.h"
#include "kernels/topk/topk.h"

namespace laconic {

/// `leader` is that of start_from.
enum class SparseRoute : std::uint8_t { automatic, gather, range, leader };

struct SparseSumOptions {
  SparseRoute route = SparseRoute::automatic;
  /// Of the values. Sums come back in the same format, except that exact sums of `sign` and `two` come back as f32.
  ValueFormat format = ValueFormat::f32;
  /// The scopes that share magnitudes, for `sign` and `two`. What it points to must outlive the exchange.
  ScopeCuts cuts{};
  /// return = coded: each owner of an index range returns only its k/W largest sums, coded like what was sent, and puts
  /// the others and the error of the coding into its own residual (`left`). Traffic stays at twice the payload for any
  /// W, but only k entries in total are updated. It always uses the route `range`.
  bool coded_return = false;
};

/// Mean over all ranks of sparse vectors, as a dense vector.
/// p is a rank's payload (k entries), u the union's payload (U entries).
///
/// gather: 1. all-gather of notices: 24(W-1)
///         2. all-gather of payloads: (W-1)·p
///         3. decode, sum in rank order
/// range:  1. cut the entries at the owners' borders; all-to-all of notices: 24(W-1)
///         2. all-to-all of the owners' entries: (W-1)/W·p
///         3. each owner sums its range in rank order; all-gather of notices: 24(W-1)
///         4. all-gather of the sums: (W-1)/W·u
///         5. decode
/// A notice contains the length of a payload and the number of its entries, so that memory is taken for these and not
/// for the most that ranks could send.
/// automatic: gather if it was no more expensive for the last step's union, otherwise range. With b bits for an entry
/// that is sent and r for one that is returned, that is k·W·b <= k·b + U·r; in the first step U counts as k. b = r
/// unless the format is `sign` or `two`. All ranks count the same entries, so all choose alike. Both routes give the
/// same bits. Borders follow the last step's aggregate, so that no owner becomes a hot spot.
///
/// leader: one rank's entries in place of the mean, as they were sent; the others send nothing of their own.
///         1. broadcast of the payload's length: 8
///         2. broadcast of the payload: p, counted as in a ring that begins at the leader
///         3. decode, on the leader too
class SparseSum : public Exchange {
 public:
  /// For views of n entries, of which each rank sends at most `most`.
  SparseSum(Communicator& communicator, Place& place, std::uint64_t n, std::uint64_t most,
            SparseSumOptions options = {});
  ~SparseSum() override { abandon(); }

  /// `mine` has ascending indices. `mean`, n long, receives the mean on the union and zero elsewhere. `own_means`, if
  /// not empty, receives the mean at each index of `mine`, in float32 whatever the type of `mean` is. After an error
  /// both are unspecified.
  void start(ConstSparseView mine, GradientView mean, StatusView status, View<float> own_means = {});
  /// `sent`, n long, receives the entries of `leader`, and zero elsewhere. `mine` is read on that rank only. Neither
  /// borders nor the last union change. All ranks pass the same leader.
  void start_from(int leader, ConstSparseView mine, GradientView sent, StatusView status);

  /// After finish, with coded_return: what this rank must add to its residual, so that nothing is lost.
  ConstSparseView left() const { return left_.sub(0, left_count_); }
  /// The next start depends on the borders and on the size of the last union (kNoUnion if there was none), which are
  /// the same on all ranks. A run that saves and restores them continues with the same routes and, with coded_return,
  /// with the same bits.
  static constexpr std::uint64_t kNoUnion = ~std::uint64_t{0};
  std::span<const std::uint64_t> borders() const { return borders_; }
  std::uint64_t last_union() const { return union_known_ ? union_count_ : kNoUnion; }
  void go_on_from(std::span<const std::uint64_t> borders, std::uint64_t last_union);
  /// Throws InvalidConfig for values that a sum of n entries cannot have saved.
  static void require_sound(std::uint64_t n, std::span<const std::uint64_t> borders, std::uint64_t last_union);

  /// The route of the last start.
  SparseRoute route() const { return route_; }

 private:
  /// A list of entries that is kept.
  struct EntryBuffer {
    Buffer<std::uint32_t> indices;
    Buffer<float> values;

    void reserve(Place& place, std::uint64_t count) {
      indices.reserve(place, count);
      values.reserve(place, count);
    }
    SparseView sub(std::uint64_t offset, std::uint64_t count) const {
      return {indices.view().sub(offset, count), values.view().sub(offset, count)};
    }
  };
  /// What a rank announces of a list before it sends it.
  struct Notice {
    std::uint64_t bytes;
    std::uint64_t entries;
    std::uint64_t load;  ///< for the borders: with coded_return the entries that an owner received, else `entries`
  };

  Handle stage(int index) override;
  void start(ConstSparseView mine, GradientView dense, StatusView status, View<float> own_means, SparseRoute route);
  SparseRoute choose_route() const;

  void encode_mine();
  Handle gather_notice(const Notice& mine);
  Handle gather_payloads();
  void sum_gathered();

  Handle broadcast_length();
  Handle broadcast_payload();
  void read_payload();
  void count_forwarded(std::uint64_t bytes);

  Handle send_notices();
  Handle send_entries();
  Handle sum_own_range();
  Handle gather_sums();
  void read_sums();

  sparse::IndexRange range_of(int owner) const;
  std::uint64_t share_of(int owner) const;
  bool is_possible(const Notice& notice, std::uint64_t most_entries, sparse::IndexRange range,
                   const sparse::ValueCoding& coding, std::uint64_t most_load = 0);
  SparseView take_list(std::uint64_t count);
  SparseView take_list(std::uint64_t count, std::uint64_t& room);
  bool decode(std::span<sparse::ReceivedList> lists, int first, const sparse::ValueCoding& coding);
  std::uint64_t decode_parts(sparse::IndexRange range);
  SparseView split_sums(SparseView summed);
  void round_as_returned(View<float> sums);
  void write_means(ConstSparseView means, std::uint64_t first, std::uint64_t end);

  std::uint64_t n_;
  std::uint64_t most_;
  SparseSumOptions options_;
  sparse::ValueCoding sent_;      ///< how values are sent
  sparse::ValueCoding returned_;  ///< how sums come back
  SparseRoute route_ = SparseRoute::automatic;
  bool union_known_ = false;
  int leader_ = 0;

  ConstSparseView mine_;
  GradientView mean_;
  View<float> own_means_;

  Slots send_;
  Slots receive_;
  std::vector<std::uint64_t> borders_;
  std::vector<std::uint64_t> next_borders_;  ///< the next step's, while this step's are still needed
  std::vector<std::uint64_t> firsts_;  ///< where each owner's entries begin in this rank's entries; last, their end
  std::uint64_t leader_bytes_ = 0;
  std::vector<std::uint64_t> lengths_;  ///< of the payloads for owners
  std::vector<Notice> notices_sent_;
  std::vector<Notice> notices_;
  std::vector<OwnerLoad> loads_;
  std::vector<sparse::ReceivedList> lists_;
  std::vector<ConstSparseView> parts_;
  EntryBuffer left_;             ///< with coded_return
  std::uint64_t received_room_;  ///< entries that an owner has room for
  std::uint64_t returned_room_;  ///< entries of the union that are read together
  std::uint64_t union_count_ = 0;
  std::uint64_t left_count_ = 0;
};

}  // namespace laconic
