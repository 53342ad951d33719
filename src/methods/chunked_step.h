#pragma once

#include <cstdint>

#include "exchange/exchange.h"
#include "laconic/status.h"
#include "laconic/step.h"

namespace laconic {

/// Consecutive tensors that are exchanged together.
struct Chunk {
  std::size_t number = 0;  ///< in the order of exchange: the reverse of registration, as in a backward pass
  std::uint32_t first_tensor = 0;
  std::uint32_t tensor_count = 0;
  std::uint64_t offset = 0;  ///< in the flat gradient
  std::uint64_t size = 0;
};

/// Entries of a full chunk, each of which takes that many bits on the wire. On the CPU a chunk should stay in a cache:
/// 1 MiB of floats. On a device every chunk costs launches and waits, whatever its size, and fewer chunks hide less of
/// their messages behind each other: 16 MiB, and more if messages are short.
inline std::uint64_t chunk_entries(Device device, double bits) {
  if (device == Device::cpu) return std::uint64_t{1} << 18;
  return std::uint64_t{1} << (bits <= 1.0 ? 24 : bits <= 8.0 ? 23 : 22);
}

/// The same if only the share `keep` is sent: an entry takes about 40 bits with its index.
inline std::uint64_t sparse_chunk_entries(Device device, double keep) { return chunk_entries(device, 40.0 * keep); }

/// The fewest entries of a full chunk on a device if messages of different chunks follow one order: 32 MiB of floats.
inline constexpr std::uint64_t kLeastInOneOrder = std::uint64_t{1} << 23;

/// A step that is exchanged chunk by chunk (pipeline.h), or as one chunk if the method needs all tensors at once.
class ChunkedStep {
 public:
  /// Whether a tensor's exchange is independent of the other tensors. If false, all tensors are one chunk.
  virtual bool by_tensor() const = 0;
  /// Entries of a full chunk if the caller sets none.
  virtual std::uint64_t usual_chunk_entries(Device device) const { return chunk_entries(device, 32.0); }
  /// Entries of a full chunk if the result depends on it, so that no caller and no device may choose another number; 0:
  /// it does not.
  virtual std::uint64_t fixed_chunk_entries() const { return 0; }
  /// The ranks among which chunks are exchanged: all of the method's, or some.
  virtual Communicator& chunk_communicator(Communicator& all) { return all; }
  /// Whether the functions below take gradients of 16 bits. If not, the pipeline gives them a copy in float32.
  virtual bool takes_16bit() const { return false; }
  /// Reads a chunk that has arrived, before its exchange starts. In a step that waits for all tensors, every chunk is
  /// read before any exchange starts.
  virtual void read_chunk(const Chunk&, ConstGradientView /*gradient*/, StatusView, StepReport&) {}
  /// The paper's step on a chunk up to the start of its exchange, which writes its result in place. New memory goes
  /// into a second copy until the step counts. The exchange sets status.nonfinite and nonfinite_rank alike on all
  /// ranks.
  virtual Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) = 0;
  /// The aggregate has arrived. Chunks end in a different order on every rank, so no collective may start here.
  virtual void finish_chunk(const Chunk&, GradientView /*aggregate*/, StatusView, StepReport&) {}
  /// Whether the chunks' exchanges are only the first level of the step, inside a machine. Then the aggregate is there
  /// after `second_level`, which is called when all chunks have been exchanged. It sets status.nonfinite alike on all
  /// ranks, and may wait.
  virtual bool has_second_level() const { return false; }
  virtual void second_level(Status&, StepReport&) {}

 protected:
  ~ChunkedStep() = default;
};

}  // namespace laconic
