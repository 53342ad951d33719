#pragma once

#include <memory>
#include <span>
#include <vector>

#include "laconic/coefficients.h"
#include "laconic/state.h"
#include "methods/pipeline.h"
#include "methods/settings.h"
#include "methods/update_memory.h"

namespace laconic {

/// C of a compressed update (updates.cpp) or of a compressed round (rounds.h), and the exchange that fits it: which part
/// of p travels, and its mean over all ranks. Works chunk by chunk.
class UpdateCompression {
 public:
  virtual ~UpdateCompression() = default;

  /// False if all of p travels as it is: then there is no error.
  virtual bool leaves_error() const { return true; }
  /// Whether a tensor's exchange is independent of the other tensors.
  virtual bool by_tensor() const = 0;
  virtual std::uint64_t usual_chunk_entries(Device device) const { return chunk_entries(device, 32.0); }
  virtual void prepare(Place& place, std::span<const Tensor> tensors) = 0;
  /// For a new group of ranks as well.
  virtual void make_exchanges(const ChunkPipeline& pipeline) = 0;

  /// A step begins in which ranks meet.
  virtual void begin(StepKey /*key*/) {}
  /// 3, 4 and 5 on a chunk: p = step + e. What of p does not travel goes into the chunk's part of next_error. `step` is
  /// scratch and may receive Δ. An empty `step`: p lies in next_error already.
  virtual Exchange& start(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                          StepReport& report) = 0;
  /// The same if one rank alone sends: Δ, in place of `step` on all ranks, is what of its p travels. The next_error of
  /// the others is zero. Only of a compression that was made for it.
  virtual Exchange& start_from(int leader, const Chunk& chunk, View<float> step, const UpdateErrors& errors,
                               StatusView status, StepReport& report);
  /// Δ has arrived.
  virtual void finish(const Chunk& /*chunk*/, const UpdateErrors& /*errors*/) {}
  /// The step counts.
  virtual void commit() {}
  /// 6: `outer` has α and μ. `steps` are the views that start got, one after another.
  virtual void move(const Coefficients& outer, View<const float> steps, const UpdateMemory& memory) = 0;

  virtual void save(State& /*state*/) const {}
  virtual void require_loadable(const State& /*state*/) const {}
  virtual void load(const State& /*state*/) {}

 protected:
  UpdateCompression() = default;
};

/// One random block per tensor, or of the model, drawn alike on all ranks: ratio, scope, values and order.
std::unique_ptr<UpdateCompression> make_block_compression(const Settings& settings);
/// The largest entries of p: the settings of SparseCompression.
std::unique_ptr<UpdateCompression> make_largest_compression(const Settings& settings);
/// For a method that can send everything as it is: all entries in float32 (order) or in 16 bits, or if `keep` or the
/// format of `values` asks for lists, the largest ones. With Senders::leader its exchanges are those of start_from.
enum class Senders : std::uint8_t { everyone, leader };
std::unique_ptr<UpdateCompression> make_compression(const Settings& settings, Senders senders = Senders::everyone);

}  // namespace laconic
