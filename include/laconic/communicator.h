#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "laconic/call.h"
#include "laconic/view.h"

namespace laconic {

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

/// Holds one operation in flight. The views that were given to the call must live until it is done; the spans of ranges
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
/// every rank starts the same calls in the same order. One thread per rank drives a communicator. Views of one call must
/// not overlap, except that `mine` may already lie in its place in `all`.
///
/// The collectives throw InvalidConfig for a view that is not in host memory or whose size does not fit, before anything
/// is started. A transport of your own implements the virtual functions; CONTRIBUTING.md, "Add a transport", has the
/// steps.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The engine's own reduction, in place; the order of its sums is the engine's.
  Handle all_reduce(View<float> values, Reduction reduction);
  /// `values` holds size() parts as long as `own`; rank r ends with the sum of all ranks' part r.
  Handle reduce_scatter(View<const float> values, View<float> own);
  /// `all` holds size() parts as long as `mine`, by rank.
  Handle all_gather(View<const std::byte> mine, View<std::byte> all);
  /// Rank r's message lands at ranges[r] of `all`; mine.size() == ranges[rank()].bytes, and all ranks agree on the
  /// ranges' sizes.
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const ByteRange> ranges);
  /// Both buffers hold size() equal parts: part r of `send` goes to rank r, whose part lands in part r of `receive`.
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive);
  /// The same with a size for each pair, known to both sides.
  Handle all_to_all_varying(View<const std::byte> send, std::span<const ByteRange> send_ranges, View<std::byte> receive,
                            std::span<const ByteRange> receive_ranges);
  Handle broadcast(View<std::byte> bytes, int root);
  Handle barrier();

  /// What a transport implements for all of the above: starts the call, does not wait for other ranks, and returns a
  /// handle on an Operation of its own with timeout(). The call is sound and is not checked again, so programs use the
  /// functions above; a communicator that wraps another one passes calls on by this one. TransportError, and no call
  /// has been made, once a rank has failed.
  virtual Handle start(const Call& call) = 0;

  /// Another communicator of the same ranks whose calls are ordered only among themselves, so that work in several
  /// stages (an exchange) can overlap with other such work: one each. A failure of one is a failure of all. It has this
  /// one's timeout and must not outlive it. Collective; blocks.
  virtual std::unique_ptr<Communicator> duplicate() = 0;

  /// A new counter, zero, kept by rank 0. Collective; blocks. Counters of several communicators are made one at a
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
