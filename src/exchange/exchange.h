#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "exchange/slots.h"
#include "laconic/communicator.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/traffic.h"

namespace laconic {

/// An exchange moves payloads over a communicator so that all ranks end with the same bits. It runs in stages. A stage
/// begins when the messages of the stage before it have arrived, so the exchanges of a step can overlap and only
/// `finish` blocks. A subclass has `start(...)`; after it, call `advance` from time to time, or just `finish`. Only one
/// start may be open at a time, and its views must live until `finish`. Exchanges that overlap need a communicator each
/// (`duplicate`), because a stage starts at a different moment on every rank, unless the caller takes all stages in one
/// order on all ranks (`is_ready`, `wait_for_stage`). If one rank has a fault, the others throw TransportError. An
/// exchange that has failed stays failed, and so does its communicator.
class Exchange {
 public:
  /// If it is destroyed in flight, it withdraws its message first, and the other ranks are notified.
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Runs the stages whose messages have arrived. Returns true when the result is ready.
  bool advance();

  /// Waits for the message in flight and runs the next stage, for a caller that advances other exchanges in between.
  /// Returns true when the result is ready.
  bool wait_for_stage();
  /// Whether wait_for_stage would not wait.
  bool is_ready();

  /// Waits for the result. Throws CorruptPayload or TransportError.
  void finish();

  const Traffic& traffic() const { return traffic_; }

  /// The status when start has returned: whether this rank's own values are finite. On a device it waits, unless the
  /// exchange had to.
  Status status_after_start() const { return seen_ ? *seen_ : read_status(place_, status_); }

 protected:
  Exchange(Communicator& communicator, Place& place);

  /// One stage: does its work and returns the message that the next stage needs. The last stage calls `done()`.
  virtual Handle stage(int index) = 0;

  /// Every start() calls it before it touches memory that a message in flight may use. Throws InvalidConfig if an
  /// exchange is in flight.
  void require_idle() const;
  void begin(StatusView status);
  void done() { done_ = true; }
  /// Every subclass calls it in its destructor, because its buffers are destroyed before the message that may use them.
  void abandon() noexcept { pending_ = {}; }

  Communicator& communicator() const { return communicator_; }
  Place& place() const { return place_; }
  StatusView status() const { return status_; }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// Counts what a message costs: everything in the slots except this rank's own slot.
  void count_sent(const Slots& slots);
  void count_received(const Slots& slots);
  /// Counts an all-gather, which sends this rank's own part to each of the others.
  void count_gathered(std::uint64_t own_bytes, std::uint64_t all_bytes);
  Traffic& cost() { return traffic_; }

  /// If this rank met a non-finite value while it encoded, sets the flag in every payload in the slots.
  void flag_nonfinite(Slots& slots);
  /// Notes from sound payloads, one in each rank's slot, the lowest rank that met a non-finite value.
  void note_nonfinite(const Slots& slots);
  /// The same from what the owners returned, which names a culprit only if no payload before has.
  void note_nonfinite_returns(const Slots& slots);
  void note_nonfinite(View<const std::byte> payload, int from);
  /// Throws on a fault, so that no later stage uses damaged data. Returns the status.
  Status require_payloads_sound() { return require_sound(place_, status_); }
  /// The same where decoders have told whether there is a fault, so that nothing need be read.
  void require_payloads_sound(bool sound) {
    if (sound) return;
    require_payloads_sound();
    LACONIC_CHECK(sound == true);  // a decoder that finds a fault notes it
  }
  /// The same in the first stage, for what this rank encodes: the status is remembered for status_after_start.
  Status require_own_sound() { return seen_.emplace(require_sound(place_, status_)); }

 private:
  void run_stage();
  template <class Body>
  void telling_others(Body&& body);
  void give_up(const char* reason) noexcept;

  Communicator& communicator_;
  Place& place_;
  std::optional<Status> seen_;  ///< in the first stage, if it was read
  StatusView status_;
  Handle pending_;
  int next_stage_ = 0;
  bool done_ = true;
  std::string failure_;  ///< empty as long as nothing has failed
  double sent_at_ = 0.0;
  std::optional<double> noticed_at_;  ///< when is_ready saw that the message had arrived
  Traffic traffic_;
};

/// W + 1 borders that divide [0, n) into nearly equal ranges, one per rank.
std::vector<std::uint64_t> even_borders(std::uint64_t n, int ranks);
void set_even_borders(std::uint64_t n, std::span<std::uint64_t> borders);

/// Seconds on a monotonic clock.
double seconds_now();

/// Adds the time between its construction and destruction to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), start_(seconds_now()) {}
  ~Stopwatch() { sum_ += seconds_now() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  double start_;
};

}  // namespace laconic
