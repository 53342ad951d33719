#include <cstdio>
#include <vector>

#include <laconic/laconic.h>
#include <laconic/methods.h>

int main() {
  // Four workers, as threads of this process; over MPI the body is the same (see <laconic/mpi.h>).
  laconic::run_ranks(4, [](laconic::Communicator& communicator) {
    laconic::Place place({.threads = 1});
    auto method = laconic::make_method("topk", {.keep = 0.01}, communicator, place);

    std::vector<float> gradient(1'000'000);
    for (std::uint32_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>((i * 2'654'435'761U + step + communicator.rank()) % 1009) - 504.0F;
      }
      const auto rank = static_cast<std::uint32_t>(communicator.rank());
      const auto report = method->reduce({.seed = 1, .step = step, .rank = rank}, gradient);
      // `gradient` is now the mean of what the workers sent, the same bits on all of them; the rest is remembered.
      if (rank == 0) {
        std::printf("step %u: sent %llu bytes; dense would send %llu\n", step,
                    static_cast<unsigned long long>(report.traffic.sent_bytes), static_cast<unsigned long long>(6 * gradient.size()));
      }
    }
  });
}
