#include "transport/mpi/progress.h"

#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

constexpr auto kInterval = std::chrono::microseconds(100);

/// How long it goes on ticking when there is nothing to do: steps follow each other, and to wake it costs a system
/// call.
constexpr auto kLinger = std::chrono::milliseconds(50);

/// Progress calls a tick: a large message moves a fragment a call.
constexpr int kLooks = 4;

}  // namespace

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::wake() {
  if (!asleep_) return;
  { std::lock_guard lock(mutex_); }  // it is either before its check or asleep for good
  changed_.notify_one();
}

void Progress::serve_counters() {
  serving_ = true;
  wake();
}

void Progress::run() {
  while (!stopping_) {
    work();
    std::unique_lock lock(mutex_);
    asleep_ = true;
    changed_.wait(lock, [this] { return stopping_ || needed(); });
    asleep_ = false;
  }
}

/// Ticks until there has been nothing to do for a while. A failed run is left alone: nothing may move bytes any more.
void Progress::work() {
  auto idle_since = Clock::now();
  while (!stopping_ && Clock::now() - idle_since < kLinger) {
    if (needed() && !world_.failed()) {
      idle_since = Clock::now();
      for (int i = 0; i < kLooks && !world_.somebody_polls(); ++i) {
        std::lock_guard lock(mpi_mutex());
        world_.look();
      }
    }
    std::this_thread::sleep_for(kInterval);
  }
}

}  // namespace laconic::mpi
