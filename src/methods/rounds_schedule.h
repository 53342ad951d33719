#pragma once

#include <cstdint>
#include <memory>

#include "laconic/communicator.h"

namespace laconic {

/// What a worker does next.
enum class Turn : std::uint8_t { step, round, end };

/// When workers step and when they meet. M workers, period τ; a cycle is M·τ steps in all and a round.
///   lockstep: every worker makes τ steps, then joins the round.
///   async:    one shared counter that only grows. Before each step a worker takes a ticket c. If c mod M(τ+1) < M·τ,
///             it makes a step; otherwise it joins the round. A worker that joins waits for all, so the cycle's M round
///             tickets go to M workers, and the next cycle begins for all of them.
/// A run of `total` steps per worker ends when M·total step tickets are used. A worker whose ticket lies beyond that
/// joins the round of that cycle, which is the last, and takes no further ticket: M·total and M·τ are multiples of M,
/// so the rest of the cycle has a ticket for every worker. A run has ceil(total/τ) rounds either way.
class RoundSchedule {
 public:
  /// total 0: no end; allowed only in lockstep.
  RoundSchedule(std::uint64_t period, std::uint64_t total, bool async)
      : period_(period), total_(total), async_(async) {}

  /// Joins these ranks in an async run. The number of finished cycles is kept. Collective.
  void join(Communicator& communicator);

  /// The worker's next turn. An async run takes a ticket, so call it once per turn.
  Turn next();
  void count_step() { ++steps_; }
  void count_round();

  bool async() const { return async_; }
  std::uint64_t period() const { return period_; }
  /// Number of finished rounds. Outside a round it is the same on all ranks.
  std::uint64_t rounds() const { return rounds_; }
  /// Steps of this worker since the last round.
  std::uint64_t steps() const { return steps_; }
  bool ended() const { return total_ > 0 && rounds_ * period_ >= total_; }

  /// Throws InvalidConfig if no run of this schedule can have made this number of rounds and steps.
  void require_resumable(std::uint64_t rounds, std::uint64_t steps) const;
  /// Continues after that number of rounds and, in lockstep, of steps.
  void resume(std::uint64_t rounds, std::uint64_t steps);

 private:
  std::uint64_t period_;
  std::uint64_t total_;
  bool async_;
  std::uint64_t rounds_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t workers_ = 1;
  std::uint64_t first_cycle_ = 0;  ///< the cycle in which the counter was zero
  std::unique_ptr<SharedCounter> counter_;
};

}  // namespace laconic
