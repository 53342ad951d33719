#include "methods/rounds_schedule.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {
namespace {

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 53;  ///< of a run without an end

}  // namespace

void RoundSchedule::join(Communicator& communicator) {
  workers_ = static_cast<std::uint64_t>(communicator.size());
  if (!async_) return;
  counter_ = communicator.make_counter();
  first_cycle_ = rounds_;
}

Turn RoundSchedule::next() {
  if (ended()) return Turn::end;
  if (!async_) {
    const bool last = total_ > 0 && rounds_ * period_ + steps_ == total_;
    return steps_ == period_ || last ? Turn::round : Turn::step;
  }
  const auto ticket = static_cast<std::uint64_t>(counter_->fetch_add(1));
  const std::uint64_t cycle = first_cycle_ + ticket / (workers_ * (period_ + 1));
  const std::uint64_t place = ticket % (workers_ * (period_ + 1));
  LACONIC_CHECK(cycle == rounds_);  // each worker joins each round once
  const bool steps_left = cycle * workers_ * period_ + place < workers_ * total_;
  return place < workers_ * period_ && steps_left ? Turn::step : Turn::round;
}

void RoundSchedule::count_round() {
  ++rounds_;
  steps_ = 0;
}

void RoundSchedule::require_resumable(std::uint64_t rounds, std::uint64_t steps) const {
  const auto refuse = [](const std::string& what, std::uint64_t most, std::uint64_t got, const std::string& why) {
    throw InvalidConfig("saved state's " + what + " must be in 0.." + std::to_string(most) + ", got " +
                        std::to_string(got) + ": " + why);
  };
  const std::uint64_t most_rounds = total_ > 0 ? (total_ + period_ - 1) / period_ : kMostSteps / period_;
  if (rounds > most_rounds) {
    refuse("rounds", most_rounds, rounds,
           total_ > 0 ? "total_steps = " + std::to_string(total_) + " is less than the run has made"
                      : "load a state as it was saved");
  }
  if (async_ && steps > 0) {
    refuse("steps since the last round", 0, steps,
           "pace = async goes on from a round only: save after one, or keep pace = lockstep");
  }
  // A round follows the last step of a period, and of the run, at once.
  std::uint64_t period = period_;
  if (total_ > 0) period = std::clamp<std::uint64_t>(total_ - std::min(total_, rounds * period_), 1, period_);
  if (steps >= period) {
    refuse("steps since the last round", period - 1, steps, "load a state as it was saved, or raise total_steps");
  }
}

void RoundSchedule::resume(std::uint64_t rounds, std::uint64_t steps) {
  rounds_ = rounds;
  steps_ = async_ ? 0 : steps;
  counter_.reset();
}

}  // namespace laconic
