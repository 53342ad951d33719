#include <cstdio>
#include <vector>

#include <laconic/laconic.h>
#include <laconic/methods.h>
#include <laconic/mpi.h>

// The same over MPI: mpirun -n 2 outside_mpi
int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  {
    auto communicator = laconic::mpi_communicator(MPI_COMM_WORLD);
    laconic::Place place({.threads = 1});
    auto method = laconic::make_method("signsgd", {}, *communicator, place);
    std::vector<float> gradient(1000, 0.5F);
    method->reduce({.seed = 1, .step = 0, .rank = static_cast<std::uint32_t>(communicator->rank())}, gradient);
    if (communicator->rank() == 0) std::printf("%s: sign %g\n", communicator->description().c_str(), gradient[0]);
  }
  MPI_Finalize();
}
