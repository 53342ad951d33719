// Steps whose tensors arrive one after another, under mpirun, for the rows that stream.

#include <gtest/gtest.h>

#include "laconic/mpi.h"
#include "methods/stream_checks.h"

namespace laconic::test {
namespace {

TEST(MpiStream, NoRowThatStreamsDependsOnTheArrival) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  for (const StreamedRow& row : streamed_rows()) {
    SCOPED_TRACE(row.name);
    if (row.streams) check_arrivals(*communicator, row);
  }
}

TEST(MpiStream, EveryRowThatStreamsExchangesEarly) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  for (const StreamedRow& row : streamed_rows()) {
    SCOPED_TRACE(row.name);
    if (row.streams) check_early_exchange(*communicator, row);
  }
}

TEST(MpiStream, ANonfiniteValueIsNamed) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  for (const StreamedRow& row : streamed_rows()) {
    SCOPED_TRACE(row.name);
    const bool one_of_each_exchange = row.name == "sgd" || row.name == "topk_by_tensor" ||
                                      row.name == "def_by_tensor" || row.name == "signum" ||
                                      row.name == "qsgd_by_tensor";
    if (one_of_each_exchange) check_streamed_nonfinite(*communicator, row);
  }
}

}  // namespace
}  // namespace laconic::test
