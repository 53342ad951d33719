#include <cstdio>
#include <vector>

#include <laconic/laconic.h>
#include <laconic/methods.h>

// Two workers vote on the sign of each entry.
int main() {
  laconic::run_ranks(2, [](laconic::Communicator& communicator) {
    laconic::Place place({.threads = 1});
    auto method = laconic::make_method("signsgd", {}, communicator, place);
    std::vector<float> gradient(1000, communicator.rank() == 0 ? 0.5F : 2.0F);
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    const auto report = method->reduce({.seed = 1, .step = 0, .rank = rank}, gradient);
    if (rank == 0) {
      std::printf("sign %g, sent %llu bytes\n", gradient[0], static_cast<unsigned long long>(report.traffic.sent_bytes));
    }
  });
}
