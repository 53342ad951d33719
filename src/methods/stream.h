#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/layout.h"
#include "exchange/exchange.h"
#include "laconic/method.h"

namespace laconic {

/// Consecutive tensors that are exchanged together.
struct Chunk {
  std::size_t number = 0;  ///< in the order of exchange, which is the reverse of registration: as backward goes
  std::uint32_t first_tensor = 0;
  std::uint32_t tensor_count = 0;
  std::uint64_t offset = 0;  ///< in the flat gradient
  std::uint64_t size = 0;
};

/// The tensors of a step as they arrive: each whole and once, in any order.
class Arrivals {
 public:
  void reset(std::size_t tensors);
  /// Takes the whole list or nothing of it. Throws InvalidConfig in the method's name for an unknown tensor, a wrong
  /// size or a duplicate.
  void take(const std::string& method, std::span<const Tensor> tensors, std::span<const TensorPart> parts);
  /// InvalidConfig that names a tensor which did not arrive.
  void require_all(const std::string& method, std::span<const Tensor> tensors) const;
  View<float> of(std::size_t tensor) const { return parts_[tensor]; }

 private:
  void take_one(const std::string& method, std::span<const Tensor> tensors, const TensorPart& part);

  std::vector<bool> arrived_;
  std::vector<View<float>> parts_;
};

/// Parts of a step as one flat view: where they lie if they lie one after another, as the first one of them says, else
/// in memory of its own.
class JoinedParts {
 public:
  JoinedParts(const Method& method, std::span<const Tensor> tensors);

  void begin();
  /// The parts at their place in the flat view, copied if need be. Valid until the next call.
  std::span<const TensorPart> add(Place& place, std::span<const TensorPart> parts);
  void require_all() const;
  /// All parts have arrived, and were changed only where `add` said that they are.
  View<float> flat(Place& place);

 private:
  const Method& method_;
  std::span<const Tensor> tensors_;
  std::vector<std::uint64_t> offsets_;
  Arrivals arrivals_;
  std::uintptr_t origin_ = 0;  ///< where the flat view begins if no part is elsewhere; 0: none has arrived
  std::vector<bool> copied_;
  bool any_copied_ = false;
  std::vector<TensorPart> placed_;
  Buffer<float> copies_;
};

/// A method's step in chunks. They depend on the tensors alone, never on how these arrive, and are exchanged in one
/// fixed order, so that ranks whose tensors arrive differently still meet. A chunk's exchange starts as soon as its
/// tensors are there and the chunks before it have started; it goes on whenever the caller adds or polls, and only
/// `finish` waits. Exchanges in flight have a lane each, a duplicate of the communicator, since their stages advance at
/// another moment on every rank; a chunk waits for the one before it on its lane. One chunk alone goes over the
/// communicator itself and starts in `finish`.
class ChunkStream {
 public:
  /// A chunk is full with `full` entries; 0: all tensors are one chunk.
  ChunkStream(Method& method, std::uint64_t full);

  /// Opens the lanes, or gives them back. Collective.
  void join(Communicator& communicator);
  void leave();

  std::span<const Chunk> chunks() const { return chunks_; }
  const Chunk& last() const { return chunks_.back(); }
  Layout layout(const Chunk& chunk) const;
  /// make(chunk, its lane) for each chunk: a method's exchanges.
  template <class Make>
  auto make_each(Make&& make) const {
    std::vector<decltype(make(chunks_.front(), lane(chunks_.front())))> made;
    for (const Chunk& chunk : chunks_) made.push_back(make(chunk, lane(chunk)));
    return made;
  }

  /// One step. `hold`: no exchange starts before `finish`. `report` lives until then.
  void begin(bool hold, StepReport& report);
  void add(std::span<const TensorPart> parts);
  /// Lets exchanges go on. Returns how many entries have their result.
  std::uint64_t poll();
  void require_all() const;
  void finish();

  /// What the chunks' exchanges found together, the same on all ranks.
  Status status() const;
  /// All parts of the step become zero.
  void clear_parts();

 private:
  /// A chunk in this step.
  struct Flight {
    std::uint32_t missing = 0;  ///< tensors that have not arrived
    View<float> gradient;
    bool copied = false;  ///< out of parts that do not lie one after another
    Exchange* exchange = nullptr;
    bool done = false;
  };

  Communicator& lane(const Chunk& chunk) const;
  std::size_t lane_count() const { return lanes_.empty() ? 1 : lanes_.size(); }
  void start_ready();
  void read(const Chunk& chunk);
  void start(const Chunk& chunk);
  void complete(const Chunk& chunk);

  Method& method_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> chunk_of_;  ///< of each tensor
  Communicator* communicator_ = nullptr;
  std::vector<std::unique_ptr<Communicator>> lanes_;

  bool hold_ = true;  ///< until a step begins
  StepReport* report_ = nullptr;
  Arrivals arrivals_;
  std::vector<Flight> flights_;
  std::vector<Status> statuses_;
  std::size_t read_ = 0;
  std::size_t started_ = 0;
  std::size_t first_open_ = 0;  ///< all before it are done
  std::uint64_t entries_done_ = 0;
  Buffer<float> copies_;
};

}  // namespace laconic
