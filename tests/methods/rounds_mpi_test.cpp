#include <gtest/gtest.h>

#include "laconic/mpi.h"
#include "methods/rounds_checks.h"

namespace laconic::test {
namespace {

class MpiRounds : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, MpiRounds, testing::Values("mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"),
                         [](const auto& test) { return test.param; });

TEST_P(MpiRounds, ResumeInLockstepBitForBit) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  check_lockstep_resume(*communicator, GetParam());
}

TEST_P(MpiRounds, EndWithEveryStepMade) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  check_async_run(*communicator, GetParam());
}

TEST_P(MpiRounds, ResumeAtARound) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  check_async_resume(*communicator, GetParam());
}

}  // namespace
}  // namespace laconic::test
