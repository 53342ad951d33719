#pragma once

#include "base/message_memory.h"
#include "exchange/owner_exchange.h"
#include "kernels/block/block.h"
#include "kernels/convert/convert.h"

namespace laconic {

enum class SumOrder : std::uint8_t { rank_order, engine };

struct DenseSumOptions {
  SumOrder order = SumOrder::rank_order;
  ValueFormat format = ValueFormat::f32;  ///< on the wire, both ways; engine takes f32 only
  bool divide = true;  ///< false: the plain sum
};

/// Mean of a dense view over all ranks; with divide = false their sum.
///
/// rank_order (W ranks, n values of b bytes):
///   1. encode W chunks of n/W values; all-to-all: (W-1)/W·n·b sent
///   2. each owner adds its chunk's W payloads in rank order in float32 and divides by W; all-gather: (W-1)/W·n·b sent
///   3. decode all chunks
///   Together 2(W-1)/W·n·b and 2(W-1) headers of 32 bytes, as much as a ring sends.
/// engine: the engine's own all-reduce of float32, then the division; its order of sums is its own.
///   2(W-1)/W·n·4 by the ring formula.
class DenseSum : public OwnerExchange {
 public:
  DenseSum(Communicator& communicator, Place& place, std::uint64_t n, DenseSumOptions options = {});
  ~DenseSum() override { abandon(); }

  /// `values` holds this rank's part and ends as the mean. Payloads carry the signature (codecs/signature.h) of a draw
  /// that says which values these are, so ranks that drew others are refused; an engine's sum has none. 0: no draw.
  void start(View<float> values, StatusView status, std::uint32_t signature = 0);

 protected:
  DenseSum(Communicator& communicator, Place& place, DenseSumOptions options);

  /// Sets the number of values that travel, and room for it.
  void resize(std::uint64_t n);
  void start_values(View<float> values, StatusView status);

  Handle stage(int index) override;

  // How a chunk [begin, end) is written and read: plain here, as blocks in BlockSum.
  virtual std::uint64_t chunk_bytes(std::uint64_t count) const;
  virtual void encode_mine(std::uint64_t begin, std::uint64_t end, View<std::byte> payload);
  virtual void encode_sum(View<const float> chunk, std::uint64_t begin, View<std::byte> payload);
  virtual bool decode(View<const std::byte> payload, std::uint64_t begin, View<float> chunk);
  virtual bool decode_add(View<const std::byte> payload, std::uint64_t begin, View<float> chunk);

  ValueFormat format() const { return options_.format; }
  SumOrder order() const { return options_.order; }

 private:
  void write_chunks() override;
  void make_own_chunk() override;
  bool read_chunk(int owner) override;
  Handle engine_stage(int index);
  View<float> engine_values();
  void add_in_rank_order(View<float> sum);

  DenseSumOptions options_;
  View<float> values_;
  std::uint32_t signature_ = 0;
  MessageMemory engine_copy_;  ///< of the values, where the place's memory is not the host's own
};

/// Mean over all ranks of the same random blocks, which all ranks drew alike; steps and bytes as DenseSum with n the
/// blocks' entries together. Each payload carries a signature of the blocks, so ranks that drew others are refused.
class BlockSum : public DenseSum {
 public:
  /// `most` is the largest number of entries that will be sent; more is possible and allocates.
  BlockSum(Communicator& communicator, Place& place, std::uint64_t most, DenseSumOptions options = {});

  /// Reads the blocks' entries of `flat`; `mean` receives their mean one after another, blocks_size(blocks) long.
  void start(View<const float> flat, std::span<const Block> blocks, View<float> mean, StatusView status);

 private:
  std::uint64_t chunk_bytes(std::uint64_t count) const override;
  void encode_mine(std::uint64_t begin, std::uint64_t end, View<std::byte> payload) override;
  void encode_sum(View<const float> chunk, std::uint64_t begin, View<std::byte> payload) override;
  bool decode(View<const std::byte> payload, std::uint64_t begin, View<float> chunk) override;
  bool decode_add(View<const std::byte> payload, std::uint64_t begin, View<float> chunk) override;

  View<const float> flat_;
  std::span<const Block> blocks_;
};

}  // namespace laconic
