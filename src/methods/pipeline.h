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

/// Exchanges a step's chunks while later tensors are still on their way. Chunks depend on the tensors alone, never on
/// how these arrive, and are exchanged in one fixed order, so ranks whose tensors arrive differently still meet. A
/// chunk's exchange starts when its tensors are there and the chunks before it have started; it goes on whenever the
/// caller adds or polls, and only `finish` waits. Each exchange in flight has a channel of its own, a duplicate of the
/// communicator, because its stages advance at another moment on every rank; a chunk waits for the one before it on its
/// channel. A single chunk uses the communicator itself and starts in `finish`.
class ChunkPipeline {
 public:
  /// A chunk is full with `full` entries; 0: all tensors are one chunk.
  ChunkPipeline(MethodCore& core, ChunkedStep& step, std::uint64_t full);

  /// Opens the channels, or releases them. Collective.
  void join(Communicator& communicator);
  void leave();

  std::span<const Chunk> chunks() const { return chunks_; }
  const Chunk& last() const { return chunks_.back(); }
  Layout layout(const Chunk& chunk) const;
  /// make(chunk, its channel) for each chunk: a method's exchanges.
  template <class Make>
  auto make_each(Make&& make) const {
    std::vector<decltype(make(chunks_.front(), channel(chunks_.front())))> made;
    for (const Chunk& chunk : chunks_) made.push_back(make(chunk, channel(chunk)));
    return made;
  }

  /// Begins a step. `hold`: no exchange starts before `finish`. `report` lives until then.
  void begin(bool hold, StepReport& report);
  /// The whole gradient at once, or tensor by tensor, each once: the caller has checked that (OpenStep).
  void add(View<float> gradient);
  void add(std::span<const TensorPart> parts);
  /// Lets exchanges go on. Returns how many entries have their aggregate.
  std::uint64_t poll();
  void finish();

  /// What the chunks' exchanges found together, the same on all ranks.
  Status status() const;
  /// Sets all gradients of the step to zero.
  void clear_gradients();

 private:
  /// A chunk in this step.
  struct Flight {
    std::uint32_t missing = 0;  ///< tensors that have not arrived
    View<float> gradient;
    bool copied = false;  ///< out of tensors that do not lie one after another
    Exchange* exchange = nullptr;
    bool done = false;
  };

  Communicator& channel(const Chunk& chunk) const;
  std::size_t channel_count() const { return channels_.empty() ? 1 : channels_.size(); }
  void start_ready();
  void read(const Chunk& chunk);
  void join_tensors(const Chunk& chunk, Flight& flight);
  void start(const Chunk& chunk);
  void complete(const Chunk& chunk);

  MethodCore& core_;
  ChunkedStep& step_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> chunk_of_;  ///< of each tensor
  Communicator* communicator_ = nullptr;
  std::vector<std::unique_ptr<Communicator>> channels_;

  bool hold_ = true;  ///< until a step begins
  StepReport* report_ = nullptr;
  View<float> flat_;                      ///< the whole gradient, if it came at once
  std::vector<View<float>> gradients_;  ///< of each tensor, if they came one by one
  std::vector<Flight> flights_;
  std::vector<Status> statuses_;
  std::size_t read_ = 0;
  std::size_t started_ = 0;
  std::size_t first_open_ = 0;  ///< all before it are done
  std::uint64_t entries_done_ = 0;
  Buffer<float> copies_;
};

}  // namespace laconic
