#include "exchange/worker.h"

#include "laconic/threads.h"
#include "support/support.h"

namespace laconic::test {

Worker::Worker(Communicator& engine, std::unique_ptr<Place> place) : engine_(engine), place_(std::move(place)) {
  if (place_->device() != Device::cpu) staged_.emplace(engine, *place_);
}

Place& Worker::cpu() {
  if (!cpu_) cpu_ = varied_place(rank());
  return *cpu_;
}

CpuOptions varied_options(int rank) {
  const auto levels = available_levels();
  const auto level = levels[(levels.size() - 1 + static_cast<std::size_t>(rank)) % levels.size()];
  return {.threads = 1 + rank % 2, .simd = level};
}

std::unique_ptr<Place> varied_place(int rank) { return std::make_unique<Place>(varied_options(rank)); }

void run_workers(int ranks, const PlaceMaker& make_place, const std::function<void(Worker&)>& body,
                 std::shared_ptr<Place> copying) {
  const auto run = [&](Communicator& communicator) {
    Worker worker(communicator, make_place(communicator.rank()));
    body(worker);
  };
  run_ranks(ranks, run, std::move(copying));
}

}  // namespace laconic::test
