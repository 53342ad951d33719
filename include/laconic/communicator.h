#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "laconic/view.h"

namespace laconic {

enum class Reduction : std::uint8_t { sum, max };

/// Where one rank's part of a buffer lies, for calls of varying sizes. Sizes are bytes, and 64 bits everywhere.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

using Milliseconds = std::chrono::milliseconds;

/// A collective in flight. Lives in its communicator, which reuses it; callers hold a Handle.
class Operation {
 public:
  virtual bool test() = 0;                      ///< true once done; never blocks; throws as wait does
  virtual void wait(Milliseconds timeout) = 0;  ///< TransportError on a failed rank or after the timeout
  virtual void release() noexcept = 0;          ///< gives it back; one still in flight is withdrawn first

 protected:
  ~Operation() = default;
};

/// Holds one operation in flight. The views that were given to the call must live until it is done; the spans of parts
/// need not. A handle that is dropped before that completes the call if every rank has started it, and otherwise
/// withdraws, so that nobody touches the views afterwards; the other ranks' waits for it then end with a
/// TransportError. After a timeout the handle may be waited for again. It must not outlive its communicator.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  Handle(Operation* operation, Milliseconds timeout) : operation_(operation), timeout_(timeout) {}
  Handle(Handle&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)), timeout_(other.timeout_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      operation_ = std::exchange(other.operation_, nullptr);
      timeout_ = other.timeout_;
    }
    return *this;
  }
  ~Handle() { reset(); }

  /// True once done; an empty handle is done.
  bool test() {
    if (operation_ == nullptr) return true;
    if (!operation_->test()) return false;
    reset();
    return true;
  }

  void wait() { wait(timeout_); }
  void wait(Milliseconds timeout) {
    if (operation_ == nullptr) return;
    operation_->wait(timeout);
    reset();
  }

 private:
  void reset() noexcept {
    if (operation_ != nullptr) std::exchange(operation_, nullptr)->release();
  }

  Operation* operation_ = nullptr;
  Milliseconds timeout_{0};
};

/// A number that all ranks share and that only fetch_add changes.
class SharedCounter {
 public:
  virtual ~SharedCounter() = default;
  /// Adds and returns what was there before. Advances whatever the other ranks are doing. TransportError if its host
  /// does not answer within the timeout; the ticket is lost then, so the communicator has failed for all ranks.
  virtual std::int64_t fetch_add(std::int64_t amount) = 0;
};

/// The ranks of a run and the engine that moves bytes between them. Calls start and return; several may be in flight;
/// every rank starts the same calls in the same order. One thread a rank drives a communicator. Views of one call must
/// not overlap, except that `mine` may already lie in its place in `all`. A view on another device than the engine
/// reads, or of a size that does not fit, is an InvalidConfig.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The engine's own reduction, in place; the order of its sums is the engine's.
  virtual Handle all_reduce(View<float> values, Reduction reduction) = 0;
  /// `values` holds size() chunks as long as `chunk`; rank r ends with the sum of all ranks' chunk r.
  virtual Handle reduce_scatter(View<const float> values, View<float> chunk) = 0;
  /// `all` holds size() parts as long as `mine`, by rank.
  virtual Handle all_gather(View<const std::byte> mine, View<std::byte> all) = 0;
  /// Rank r's message lands at parts[r] of `all`; mine.size() == parts[rank()].bytes, and all ranks agree on `parts`'
  /// sizes.
  virtual Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const Part> parts) = 0;
  /// Both buffers hold size() equal parts: part r of `send` goes to rank r, whose part lands in part r of `receive`.
  virtual Handle all_to_all(View<const std::byte> send, View<std::byte> receive) = 0;
  /// The same with a size for each pair, known to both sides.
  virtual Handle all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts,
                                    View<std::byte> receive, std::span<const Part> receive_parts) = 0;
  virtual Handle broadcast(View<std::byte> bytes, int root) = 0;
  virtual Handle barrier() = 0;

  /// Another communicator of the same ranks whose calls are ordered only among themselves, so that work in several
  /// stages (an exchange) can overlap with other such work: one each. A failure of one is a failure of all. It must not
  /// outlive this one. Collective; blocks.
  virtual std::unique_ptr<Communicator> duplicate() = 0;

  /// A new counter, zero, hosted by rank 0. Collective; blocks. Counters of several communicators are made one at a
  /// time in a process, in the same order on all ranks. Its fetch_add waits for the timeout that is set now.
  virtual std::unique_ptr<SharedCounter> make_counter() = 0;

  /// Tells the others that this rank cannot go on; their waits end with a TransportError that names it and the reason,
  /// now and for every call to come. The first failure counts; a call that every rank had started may still complete.
  virtual void fail(std::string_view reason) noexcept = 0;

  /// "threads, 4 ranks" or "mpi, 4 ranks, progress thread": for a program to show.
  virtual std::string description() const = 0;

  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 private:
  Milliseconds timeout_{60'000};
};

}  // namespace laconic
