#include <gtest/gtest.h>

#include "laconic/error.h"
#include "laconic/mpi.h"
#include "support/support.h"

namespace laconic::test {
namespace {

// This program never starts MPI.
TEST(MpiRefusal, MpiMustBeInitialised) {
  EXPECT_EQ("mpi_communicator needs MPI, which is not initialised: call MPI_Init_thread(MPI_THREAD_SERIALIZED) first",
            message_of<InvalidConfig>([] { mpi_communicator(MPI_COMM_WORLD); }));
}

}  // namespace
}  // namespace laconic::test
