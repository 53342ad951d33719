#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/layout.h"
#include "laconic/communicator.h"
#include "laconic/status.h"
#include "methods/chunked_step.h"

namespace laconic {

class MethodCore;

/// Exchanges a step's chunks while later tensors have not arrived yet. Chunks depend only on the tensors, not on the
/// order in which they arrive, and are exchanged in one fixed order, so ranks whose tensors arrive in different orders
/// still match. A chunk's exchange starts when its tensors have arrived and the chunks before it have started. It
/// advances whenever the caller adds or polls; only `finish` waits. Each exchange in flight has its own channel, a
/// duplicate of the communicator, because its stages advance at a different moment on every rank; a chunk waits for the
/// chunk before it on its channel. A single chunk uses the communicator itself and starts in `finish`.
///
/// If the communicator's duplicates do not overlap, one channel serves all chunks, and all ranks follow one schedule:
/// in turn t each open chunk takes its next stage, the oldest first, and then chunk t starts. So from a chunk's third
/// stage on, each waits until one more chunk has arrived, or for `finish`.
class ChunkPipeline {
 public:
  /// A chunk is full when it has `full` entries; 0: all tensors are one chunk.
  ChunkPipeline(MethodCore& core, ChunkedStep& step, std::uint64_t full);

  /// Opens the channels, or releases them. Collective.
  void join(Communicator& communicator);
  void leave();

  std::span<const Chunk> chunks() const { return chunks_; }
  const Chunk& last() const { return chunks_.back(); }
  Layout layout(const Chunk& chunk) const;
  /// Calls make(chunk, its channel) for each chunk, to make a method's exchanges.
  template <class Make>
  auto make_each(Make&& make) const {
    std::vector<decltype(make(chunks_.front(), channel(chunks_.front())))> made;
    for (const Chunk& chunk : chunks_) made.push_back(make(chunk, channel(chunk)));
    return made;
  }

  /// Begins a step. If `hold`, no exchange starts before `finish`. `report` must live until then.
  void begin(bool hold, StepReport& report);
  /// Adds the whole gradient at once, or tensor by tensor. The caller has checked that each comes once (OpenStep).
  void add(GradientView gradient);
  void add(std::span<const TensorPart> parts);
  /// Advances the exchanges. Returns how many entries have their aggregate.
  std::uint64_t poll();
  void finish();

  /// The combined status of the chunks' exchanges. The same on all ranks. After finish.
  const Status& status() const { return status_; }
  /// Sets all gradients of the step to zero.
  void clear_gradients();

 private:
  /// A chunk in this step.
  struct Flight {
    std::uint32_t missing = 0;  ///< tensors that have not arrived
    GradientView gradient;
    bool copied = false;  ///< from tensors that are not contiguous, or of a type that the method does not take
    Exchange* exchange = nullptr;
    bool done = false;
  };

  Communicator& channel(const Chunk& chunk) const;
  StatusView status_of(const Chunk& chunk) const { return statuses_.view().sub(chunk.number, 1); }
  void read_statuses();
  std::size_t channel_count() const { return channels_.empty() ? 1 : channels_.size(); }
  void start_ready();
  bool follow_schedule(bool wait);
  void read(const Chunk& chunk);
  void join_tensors(const Chunk& chunk, Flight& flight);
  void start(const Chunk& chunk);
  void complete(const Chunk& chunk);
  bool can_use_in_place(std::span<const GradientView> tensors) const;
  void hand_back(const Chunk& chunk);

  MethodCore& core_;
  ChunkedStep& step_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> chunk_of_;  ///< of each tensor
  Communicator* communicator_ = nullptr;
  std::vector<std::unique_ptr<Communicator>> channels_;
  bool scheduled_ = false;  ///< whether chunks share a channel

  bool hold_ = true;  ///< until a step begins
  StepReport* report_ = nullptr;
  GradientView flat_;                    ///< the whole gradient, if it came at once
  std::vector<GradientView> gradients_;  ///< of each tensor
  std::vector<Flight> flights_;
  Buffer<Status> statuses_;  ///< of the chunks' exchanges, in the place's memory
  std::vector<Status> read_statuses_;
  Status status_;  ///< of all chunks
  std::size_t read_ = 0;
  std::size_t started_ = 0;
  std::size_t next_ = 0;        ///< of the schedule: the chunks before it have taken their stage in this turn
  std::size_t first_open_ = 0;  ///< all chunks before it are done
  std::uint64_t entries_done_ = 0;
  Buffer<float> copies_;
};

}  // namespace laconic
