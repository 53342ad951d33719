#pragma once

#include "base/message_memory.h"
#include "exchange/owner_exchange.h"
#include "kernels/block/block.h"
#include "kernels/convert/convert.h"

namespace laconic {

enum class SumOrder : std::uint8_t { rank_order, engine };

struct DenseSumOptions {
  SumOrder order = SumOrder::rank_order;
  ValueFormat format = ValueFormat::f32;  ///< on the wire, both ways; order `engine` accepts only f32
  bool divide = true;                     ///< false: the plain sum
};

/// Mean of a dense view over all ranks, or the sum if divide = false.
///
/// rank_order (W ranks, n values of b bytes):
///   1. encode W ranges of n/W values; all-to-all: (W-1)/W·n·b sent
///   2. each owner adds its range's W payloads in rank order in float32 and divides by W; all-gather: (W-1)/W·n·b sent
///   3. decode all ranges
///   In total 2(W-1)/W·n·b and 2(W-1) headers of 32 bytes, as much as a ring sends.
/// engine: the engine's own all-reduce of float32, then the division. The engine chooses the order of the sums.
///   2(W-1)/W·n·4 by the ring formula.
class DenseSum : public OwnerExchange {
 public:
  DenseSum(Communicator& communicator, Place& place, std::uint64_t n, DenseSumOptions options = {});
  ~DenseSum() override { abandon(); }

  /// `values` holds this rank's values and receives the mean. Values of 16 bits are summed in float32, and order
  /// `engine` does not accept them. If a random draw decided which values these are, payloads carry its signature
  /// (codecs/signature.h), so that ranks which drew others are rejected; an engine's sum carries none. 0: no draw.
  void start(GradientView values, StatusView status, std::uint32_t signature = 0);

 protected:
  DenseSum(Communicator& communicator, Place& place, DenseSumOptions options);

  /// Sets the number of values that are sent, and makes room for them.
  void resize(std::uint64_t n);
  void start_values(GradientView values, StatusView status);

  Handle stage(int index) override;

  // How the `count` values of a range that begins at `begin` are written and read: plain here, as blocks in BlockSum.
  virtual void encode_mine(std::uint64_t begin, std::uint64_t count, View<std::byte> payload);
  virtual bool open(std::span<const ReceivedRange> ranges, TakeValues take);
  virtual void seal(std::uint64_t begin, std::uint64_t count, View<std::byte> payload);

  ValueFormat format() const { return options_.format; }
  SumOrder order() const { return options_.order; }

 private:
  void write_ranges() override;
  void make_own_range() override;
  bool read_ranges() override;
  Handle engine_stage(int index);
  View<float> engine_values();

  DenseSumOptions options_;
  GradientView values_;
  std::uint32_t signature_ = 0;
  std::vector<ConstGradientView> parts_;  ///< of the own range, by rank
  MessageMemory engine_copy_;             ///< copy of the values if the place's memory is not ordinary CPU memory
};

/// Mean over all ranks of the same random blocks, which all ranks drew alike. Steps and bytes are those of DenseSum
/// with n = entries of all blocks. Each payload carries a signature of the blocks, so ranks that drew others are
/// rejected.
class BlockSum : public DenseSum {
 public:
  /// `most` is the expected largest number of entries that are sent. Sending more is possible and allocates.
  BlockSum(Communicator& communicator, Place& place, std::uint64_t most, DenseSumOptions options = {});

  /// Reads the blocks' entries of `flat`. `mean`, blocks_size(blocks) long, receives their means one after another.
  void start(View<const float> flat, std::span<const Block> blocks, View<float> mean, StatusView status);

 private:
  void encode_mine(std::uint64_t begin, std::uint64_t count, View<std::byte> payload) override;
  bool open(std::span<const ReceivedRange> ranges, TakeValues take) override;
  void seal(std::uint64_t begin, std::uint64_t count, View<std::byte> payload) override;

  View<const float> flat_;
  std::span<const Block> blocks_;
};

/// Replaces `values` by their mean over all ranks, once: for what is not part of a step. Makes an exchange and waits
/// for it. Collective.
void average_over_ranks(Communicator& communicator, Place& place, View<float> values);

}  // namespace laconic
