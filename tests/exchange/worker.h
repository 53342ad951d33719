#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "exchange/model.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "support/placed.h"
#include "support/places.h"
#include "transport/staged/communicator.h"

namespace laconic::test {

/// One rank of a check: its place, and a communicator that takes views on that place, as a method has them.
class Worker {
 public:
  /// The engine must outlive it.
  Worker(Communicator& engine, std::unique_ptr<Place> place);

  Communicator& communicator() { return staged_ ? *staged_ : engine_; }
  Place& place() { return *place_; }
  /// An ordinary place on the CPU, for what a check computes itself.
  Place& cpu();
  int rank() const { return engine_.rank(); }
  int size() const { return engine_.size(); }

 private:
  Communicator& engine_;
  std::unique_ptr<Place> place_;
  std::optional<staged::StagedCommunicator> staged_;
  std::unique_ptr<Place> cpu_;  ///< null until it is needed
};

/// A SIMD level and a number of threads that differ from rank to rank: results must not.
CpuOptions varied_options(int rank);
std::unique_ptr<Place> varied_place(int rank);

/// Runs `body` once per rank, each in a thread, with the place that `make_place` makes.
void run_workers(int ranks, const PlaceMaker& make_place, const std::function<void(Worker&)>& body,
                 std::shared_ptr<Place> copying = nullptr);

/// A status in the memory of a place.
class PlacedStatus {
 public:
  explicit PlacedStatus(Place& place) : place_(place) {
    memory_.reserve(place, 1);
    clear_status(place, view());
  }
  StatusView view() const { return memory_.view(1); }
  Status read() const { return read_status(place_, view()); }

 private:
  Place& place_;
  Buffer<Status> memory_;
};

/// Entries in the memory of a place.
class PlacedEntries {
 public:
  PlacedEntries(Place& place, const Entries& entries)
      : indices_(place, entries.indices), values_(place, entries.values) {}
  ConstSparseView view() const { return {indices_.view(), values_.view()}; }

 private:
  Placed<std::uint32_t> indices_;
  Placed<float> values_;
};

/// What the worker has of the entries of all ranks.
inline const Entries& own(const std::vector<Entries>& parts, const Worker& worker) {
  return parts[static_cast<std::size_t>(worker.rank())];
}

}  // namespace laconic::test
