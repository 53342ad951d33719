#include "runner.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "laconic/error.h"
#include "usage.h"
#if LACONIC_MPI
#include "laconic/mpi.h"
#endif

namespace laconic::tools {
namespace {

class ThreadRunner final : public Runner {
 public:
  int processes() const override { return 0; }
  bool speaks() const override { return true; }
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
  }

  int processes() const override { return size_; }
  bool speaks() const override { return rank_ == 0; }
  RunResult run(const RunConfig& config, const Workload& workload, Observer& observer,
                const CheckpointPlan& checkpoints) override {
    Observer silent;
    const auto communicator = mpi_communicator(MPI_COMM_WORLD);
    return run_worker(config, workload, *communicator, rank_ == 0 ? observer : silent, checkpoints);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

void with_mpi(const std::function<void(Runner&)>& body) {
  MpiRunner runner;
  try {
    body(runner);
  } catch (const InvalidConfig&) {
    // All ranks find a wrong setting, or a number that is not finite, alike: one of them tells.
    MPI_Finalize();
    if (runner.speaks()) throw;
    std::exit(0);
  } catch (const std::exception& error) {
    // A rank has failed, and what it had in flight cannot be taken back: end all, rank 0 first, which tells why.
    if (runner.speaks()) {
      std::cerr << "laconic: " << with_flags(error.what()) << std::endl;
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}

#endif

}  // namespace

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
