#include "runner.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "base/memory.h"
#include "laconic/error.h"
#include "usage.h"
#if LACONIC_MPI
#include "laconic/mpi.h"
#include "transport/failure.h"
#endif

namespace laconic::tools {
namespace {

class ThreadRunner final : public Runner {
 public:
  int processes() const override { return 0; }
  bool speaks() const override { return true; }
  void require_same(const std::vector<AgreedField>& /*fields*/) override {}
  RunResult run(const RunConfig& config, const Workload& workload, Observer& observer,
                const CheckpointPlan& checkpoints) override {
    return run_threads(config, workload, &observer, checkpoints).front();
  }
};

/// mpirun of OpenMPI, or of MPICH and its kin, started this process together with others.
bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr; }

#if LACONIC_MPI

class MpiRunner final : public Runner {
 public:
  MpiRunner() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_dup(MPI_COMM_WORLD, &ending_);
  }

  int rank() const { return rank_; }
  int processes() const override { return size_; }
  bool speaks() const override { return rank_ == 0; }
  void require_same(const std::vector<AgreedField>& fields) override {
    require_agreement(*mpi_communicator(MPI_COMM_WORLD), fields);
  }
  RunResult run(const RunConfig& config, const Workload& workload, Observer& observer,
                const CheckpointPlan& checkpoints) override {
    Observer silent;
    const auto communicator = mpi_communicator(MPI_COMM_WORLD);
    return run_worker(config, workload, *communicator, rank_ == 0 ? observer : silent, checkpoints);
  }

  /// Whether all ranks come here in time.
  bool all_end(std::chrono::seconds patience) const {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(ending_, &request);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) return true;
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm ending_ = MPI_COMM_NULL;  ///< for all_end alone
};

/// Ends every rank. What this one had in flight cannot be taken back, so nothing more is asked of MPI.
[[noreturn]] void end_all(const std::exception& error) {
  std::cerr << complaint(error_text(error)) << std::endl;
  MPI_Abort(MPI_COMM_WORLD, exit_code(error));
  std::abort();
}

/// When a rank's turn to tell comes: all know the cause, because a failing rank tells the others, so the lowest that
/// still answers tells it and ends the others before it is their turn.
std::chrono::seconds turn(int rank, const std::exception& error) {
  auto before = static_cast<std::ptrdiff_t>(rank);
  if (const auto* timeout = dynamic_cast<const WaitTimeout*>(&error)) {
    const std::vector<int>& silent = timeout->silent();
    before -= std::count_if(silent.begin(), silent.end(), [rank](int other) { return other < rank; });
  }
  return std::chrono::seconds(3 * std::min<std::ptrdiff_t>(before, 2));
}

void with_mpi(const std::function<void(Runner&)>& body) {
  MpiRunner runner;
  try {
    body(runner);
  } catch (const InvalidConfig& error) {
    // As a rule all ranks find a wrong setting, or a number that is not finite, alike: one of them tells.
    if (!runner.all_end(std::chrono::seconds(3))) {
      std::this_thread::sleep_for(turn(runner.rank(), error));
      end_all(error);
    }
    MPI_Finalize();
    if (runner.speaks()) throw;
    std::exit(0);
  } catch (const std::exception& error) {
    std::this_thread::sleep_for(turn(runner.rank(), error));
    end_all(error);
  }
  MPI_Finalize();
}

#endif

}  // namespace

void require_place_for_checkpoints(const RunConfig& config, const std::string& out) {
  if (config.checkpoint_interval == 0 || !out.empty()) return;
  throw InvalidConfig("--checkpoint-interval without --out: name the run's folder, checkpoints go into it");
}

void with_runner(const std::function<void(Runner&)>& body) {
#if LACONIC_MPI
  if (under_mpirun()) return with_mpi(body);
#else
  if (under_mpirun()) throw Error("this laconic was built without MPI: build it with MPI, or leave mpirun out");
#endif
  ThreadRunner runner;
  body(runner);
}

}  // namespace laconic::tools
