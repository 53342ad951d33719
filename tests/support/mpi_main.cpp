#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// main() of test programs that run under mpirun: every rank runs every test, and the program fails on all ranks if a
// test fails on one. LACONIC_TEST_MPI_THREADS=funneled asks MPI for less than the library wants.

namespace {

/// Ranks other than 0 print only what went wrong.
class Quiet : public testing::EmptyTestEventListener {
 public:
  explicit Quiet(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d: %s:%d: %s\n", rank_, result.file_name() != nullptr ? result.file_name() : "?",
                result.line_number(), result.message());
    std::fflush(stdout);
  }

  int rank_;
};

int wanted_level() {
  const char* text = std::getenv("LACONIC_TEST_MPI_THREADS");
  return text != nullptr && std::strcmp(text, "funneled") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, wanted_level(), &level);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Quiet(rank));
  }
  int failed = RUN_ALL_TESTS();
  int any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any;
}
