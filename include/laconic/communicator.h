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

/// A collective in flight. Its communicator owns and reuses it; callers hold a Handle.
class Operation {
 public:
  virtual bool test() = 0;                      ///< true once done; never blocks; throws what wait throws
  virtual void wait(Milliseconds timeout) = 0;  ///< throws TransportError if a rank has failed or after the timeout
  virtual void release() noexcept = 0;  ///< returns it to the communicator; withdraws it first if it is in flight

 protected:
  ~Operation() = default;
};

/// Holds one operation in flight. The views that were passed to the call must live until it is done; the spans of
/// ranges need not. If a handle is destroyed before that, it completes the call if every rank has started it. Otherwise
/// it withdraws the call, so that nobody touches the views afterwards, and the other ranks' waits for the call throw
/// TransportError. After a timeout, wait may be called again. A handle must not outlive its communicator.
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
  /// Adds `amount` and returns the value before. It completes whatever the other ranks are doing. Throws TransportError
  /// if the rank that keeps the counter does not answer within the timeout; then nobody knows whether the addition took
  /// place, so the communicator fails on all ranks.
  virtual std::int64_t fetch_add(std::int64_t amount) = 0;
};

/// The ranks of a run and the engine that moves bytes between them. Calls do not block, and several may be in flight.
/// Every rank starts the same calls in the same order. One thread per rank drives a communicator. Views of one call
/// must not overlap, except that `mine` may already lie in its place in `all`.
///
/// The collectives throw InvalidConfig, before they start anything, for a view of the wrong size or in memory that the
/// engine cannot reach. All views of a call lie on one device. To write your own transport, implement the virtual
/// functions; CONTRIBUTING.md, "Add a transport", lists the steps.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Whether the engine reaches memory of that device. It always reaches CPU memory. Engines do not handle CUDA
  /// streams: what is sent must be there before the call starts, and what arrives is there when the handle is done.
  virtual bool takes(Device device) const { return device == Device::cpu; }
  /// The same for all_reduce and reduce_scatter.
  virtual bool reduces(Device device) const { return takes(device); }

  /// Whether calls of this communicator and of those that come from it (duplicate, split) may be in flight at the same
  /// time, in an order that differs between ranks. If not, all ranks must start the calls of all of them in one order,
  /// and two levels are refused.
  virtual bool duplicates_overlap() const { return true; }

  /// The engine's own reduction, in place. The engine chooses the order in which it sums.
  Handle all_reduce(View<float> values, Reduction reduction);
  /// `values` holds size() parts as long as `own`. Rank r receives the sum of all ranks' part r in `own`.
  Handle reduce_scatter(View<const float> values, View<float> own);
  /// `all` holds size() parts as long as `mine`, in rank order.
  Handle all_gather(View<const std::byte> mine, View<std::byte> all);
  /// Rank r's message is written to ranges[r] of `all`. mine.size() must be ranges[rank()].bytes, and all ranks must
  /// pass ranges of the same sizes.
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const ByteRange> ranges);
  /// Both buffers hold size() equal parts. Part r of `send` goes to rank r; what rank r sends arrives in part r of
  /// `receive`.
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive);
  /// The same with a size for each pair, known to both sides.
  Handle all_to_all_varying(View<const std::byte> send, std::span<const ByteRange> send_ranges, View<std::byte> receive,
                            std::span<const ByteRange> receive_ranges);
  Handle broadcast(View<std::byte> bytes, int root);
  Handle barrier();

  /// A transport implements all of the functions above through this one: it starts the call, does not wait for other
  /// ranks, and returns a handle on one of its own Operations with timeout(). The call is valid and is not checked
  /// again, so programs call the functions above; a communicator that wraps another one forwards calls by this one.
  /// Once a rank has failed, it throws TransportError and starts nothing.
  virtual Handle start(const Call& call) = 0;

  /// Another communicator of the same ranks. If duplicates_overlap(), its calls are ordered only among themselves, so
  /// that work which has several stages (exchanges) can overlap with one communicator each. If one of the communicators
  /// fails, all fail. It has this one's timeout and must not outlive it. Collective; blocks.
  virtual std::unique_ptr<Communicator> duplicate() = 0;

  /// A communicator of the ranks that pass the same colour, in the order of their ranks here. Like a duplicate, it has
  /// this one's timeout, must not outlive it, and fails with it and with all others that come from it; messages of
  /// errors name the ranks of the first communicator. Over MPI it has no counters. Collective; blocks. Throws
  /// InvalidConfig if the engine cannot.
  virtual std::unique_ptr<Communicator> split(int color);

  /// A new counter that starts at zero and is kept by rank 0. Collective; blocks. A process must make the counters of
  /// several communicators one at a time, in the same order on all ranks. fetch_add uses the timeout that is set now.
  virtual std::unique_ptr<SharedCounter> make_counter() = 0;

  /// Reports to the other ranks that this rank cannot go on. Their waits, and every later call, throw a TransportError
  /// that names this rank and the reason. The first failure counts. A call that every rank had started may still
  /// complete.
  virtual void fail(std::string_view reason) noexcept = 0;

  /// A text for a program to show: "threads, 4 ranks" or "mpi, 4 ranks, progress thread".
  virtual std::string description() const = 0;

  virtual Milliseconds timeout() const { return timeout_; }
  virtual void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 private:
  Milliseconds timeout_{60'000};
};

}  // namespace laconic
