// A run that is cut and taken up again under mpirun, for every row of the table.

#include <gtest/gtest.h>

#include "laconic/mpi.h"
#include "methods/resume_check.h"

namespace laconic::test {
namespace {

TEST(MpiTable, EveryRowResumesBitForBit) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  for (const MethodRow& row : method_table()) {
    // After one step, in a round, and between rounds of four steps.
    for (const std::uint32_t cut : {1U, 4U, 6U}) check_resume(*communicator, row, small_options(row), cut);
  }
}

TEST(MpiTable, EveryChoiceOfEveryWordResumesBitForBit) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  for (const WordChoice& choice : every_word_choice()) {
    SCOPED_TRACE(choice.description);
    check_resume(*communicator, *choice.row, choice.options, 5);
  }
}

}  // namespace
}  // namespace laconic::test
