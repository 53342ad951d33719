#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "transport/mpi/world.h"

namespace laconic::mpi {

/// A thread that drives MPI while this rank computes. OpenMPI moves bytes only inside MPI calls, and over TCP it also
/// serves one-sided calls only there. The thread polls under the process's lock about every 100 microseconds while an
/// operation is in flight or a counter exists, and sleeps otherwise. Needs MPI_THREAD_SERIALIZED.
class Progress {
 public:
  explicit Progress(World& world) : world_(world), thread_([this] { run(); }) {}
  ~Progress();

  /// An operation has been started.
  void wake();
  /// From now on the thread polls all the time, because a counter exists.
  void serve_counters();

 private:
  bool needed() const { return serving_ || world_.in_flight(); }
  void run();
  void work();

  World& world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> serving_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace laconic::mpi
