#include "methods/rounds_schedule.h"

#include "base/check.h"

namespace laconic {

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

void RoundSchedule::resume(std::uint64_t rounds, std::uint64_t steps) {
  rounds_ = rounds;
  steps_ = async_ ? 0 : steps;
  counter_.reset();
}

}  // namespace laconic
