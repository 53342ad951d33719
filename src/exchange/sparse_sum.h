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

/// Mean over all ranks of sparse vectors. The result is a dense vector and a list of the indices that any rank sent.
/// p is a rank's payload (k entries), u the union's payload (U entries).
///
/// gather: 1. all-gather of payload lengths: 8(W-1)
///         2. all-gather of payloads: (W-1)·p
///         3. decode, sum in rank order
/// range:  1. cut the entries at the owners' borders; all-to-all of lengths: 8(W-1)
///         2. all-to-all of the owners' entries: (W-1)/W·p
///         3. each owner sums its range in rank order; all-gather of lengths and loads: 16(W-1)
///         4. all-gather of the sums: (W-1)/W·u
///         5. decode
/// automatic: gather if it was no more expensive for the last step's union, otherwise range. With b bits for an entry
/// that is sent and r for one that is returned, that is k·W·b <= k·b + U·r; in the first step U counts as k. b = r unless
/// the format is `sign` or `two`. All ranks count the same entries, so all choose alike. Both routes give the same bits.
/// Borders follow the last step's aggregate, so that no owner becomes a hot spot.
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

  /// `mine` has ascending indices. `mean`, n long, receives the mean on the union and zero elsewhere.
  void start(ConstSparseView mine, GradientView mean, StatusView status);
  /// `sent`, n long, receives the entries of `leader`, and zero elsewhere. `mine` is read on that rank only. Neither
  /// borders nor the last union change. All ranks pass the same leader.
  void start_from(int leader, ConstSparseView mine, GradientView sent, StatusView status);

  /// After finish: the aggregate as a list, by ascending index.
  ConstSparseView entries() const { return union_.sub(0, union_count_); }
  /// After finish, with coded_return: what this rank must add to its residual, so that nothing is lost.
  ConstSparseView left() const { return left_.sub(0, left_count_); }
  /// The next start depends on the borders and on the size of the last union (kNoUnion if there was none), which are
  /// the same on all ranks. A run that saves and restores them continues with the same routes and, with coded_return,
  /// with the same bits.
  static constexpr std::uint64_t kNoUnion = ~std::uint64_t{0};
  std::span<const std::uint64_t> borders() const { return borders_; }
  std::uint64_t last_union() const { return union_known_ ? union_count_ : kNoUnion; }
  void go_on_from(std::span<const std::uint64_t> borders, std::uint64_t last_union);
  /// Throws InvalidConfig for values that a sum with this number of entries and ranks cannot have saved.
  void require_sound(std::span<const std::uint64_t> borders, std::uint64_t last_union) const;

  /// The route of the last start.
  SparseRoute route() const { return route_; }

 private:
  /// Lists of entries that are kept between stages.
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
  /// What an owner sends before it returns its sums.
  struct ReturnNotice {
    std::uint64_t bytes;
    std::uint64_t load;
  };

  Handle stage(int index) override;
  void start(ConstSparseView mine, GradientView dense, StatusView status, SparseRoute route);
  SparseRoute choose_route() const;

  void encode_mine();
  Handle gather_lengths();
  Handle gather_payloads();
  void sum_gathered();

  Handle broadcast_length();
  Handle broadcast_payload();
  void read_payload();
  void count_forwarded(std::uint64_t bytes);

  Handle send_lengths();
  Handle send_entries();
  Handle sum_own_range();
  Handle gather_sums();
  void read_sums();

  sparse::IndexRange range_of(int owner) const;
  bool expect(std::uint64_t bytes, std::uint64_t most_entries, sparse::IndexRange range,
              const sparse::ValueCoding& coding);
  std::uint64_t decode_parts(sparse::IndexRange range);
  std::uint64_t keep_largest(std::uint64_t summed);
  void keep_coding_error(std::uint64_t kept);
  void round_as_returned(View<float> sums);
  void write_dense(ConstSparseView entries);

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

  Slots send_;
  Slots receive_;
  std::vector<std::uint64_t> borders_;
  std::vector<std::uint64_t> firsts_;  ///< where each owner's entries begin in this rank's entries; last, their end
  std::vector<std::uint64_t> lengths_sent_;
  std::vector<std::uint64_t> lengths_;
  std::vector<ReturnNotice> notices_;
  std::vector<OwnerLoad> loads_;
  std::vector<ConstSparseView> parts_;
  EntryBuffer decoded_;
  EntryBuffer summed_;
  EntryBuffer union_;
  EntryBuffer left_;
  std::uint64_t union_count_ = 0;
  std::uint64_t left_count_ = 0;
};

}  // namespace laconic
