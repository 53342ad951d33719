#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exchange/slots.h"
#include "laconic/communicator.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/traffic.h"

namespace laconic {

/// An exchange moves payloads over a communicator so that all ranks end with the same bits. It runs in stages, each
/// beginning when the messages of the one before have arrived, so that a step's exchanges can overlap and nothing
/// blocks but `finish`. A subclass has `start(...)`; then call `advance` now and then, or just `finish`. One start at a
/// time; the views given to it must live until then. Exchanges that overlap have a communicator each (`duplicate`),
/// since a stage starts when its messages have arrived, which is not the same moment on every rank. A fault on one rank
/// is told to the others, who end with a TransportError; an exchange that has failed stays failed, as its communicator
/// does.
class Exchange {
 public:
  /// One that is destroyed in flight withdraws from its message first; the other ranks are told.
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Runs the stages whose messages have arrived. True when the result is there.
  bool advance();

  /// Waits for the message in flight and runs the next stage: for one who has other exchanges to advance meanwhile.
  /// True when the result is there.
  bool wait_for_stage();

  /// Waits for the result. CorruptPayload, TransportError.
  void finish();

  const Traffic& traffic() const { return traffic_; }

 protected:
  Exchange(Communicator& communicator, Place& place);

  /// One stage: does its work and returns the message that the next one needs. Calls `done()` in the last.
  virtual Handle stage(int index) = 0;

  /// Every start() calls it before it touches what a message in flight may use. InvalidConfig.
  void require_idle() const;
  void begin(StatusView status);
  void done() { done_ = true; }
  /// Every subclass calls it in its destructor, since its buffers go before the message that may still use them.
  void abandon() noexcept { pending_ = {}; }

  Communicator& communicator() const { return communicator_; }
  Place& place() const { return place_; }
  StatusView status() const { return status_; }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  /// Adds up what a message costs: everything in the slots but this rank's own part.
  void count_sent(const Slots& slots);
  void count_received(const Slots& slots);
  /// An all-gather of parts sends this rank's own to each of the others.
  void count_gathered(std::uint64_t own_bytes, std::uint64_t all_bytes);
  Traffic& cost() { return traffic_; }

  /// If this rank met a non-finite value while it encoded, every payload in the slots says so.
  void flag_nonfinite(Slots& slots);
  /// Notes who met one, from a payload that was decoded.
  void note_nonfinite(View<const std::byte> payload, int from);
  /// Throws on a fault: what follows must not be built on damaged data.
  void require_payloads_sound() { require_sound(place_, status_); }

 private:
  void run_stage();
  template <class Body>
  void telling_others(Body&& body);
  void give_up(const char* reason) noexcept;

  Communicator& communicator_;
  Place& place_;
  StatusView status_;
  Handle pending_;
  int next_stage_ = 0;
  bool done_ = true;
  std::string failure_;  ///< empty while all is well
  double sent_at_ = 0.0;
  Traffic traffic_;
};

/// W + 1 borders that give each rank nearly the same share of [0, n).
std::vector<std::uint64_t> even_borders(std::uint64_t n, int ranks);
void set_even_borders(std::uint64_t n, std::span<std::uint64_t> borders);

/// Seconds on a clock that only goes forward.
double seconds_now();

/// Adds the time of its life to a sum.
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
