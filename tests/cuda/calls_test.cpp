// What a step asks of the device, in a model of many small tensors: launches and waits must not grow with the number of
// tensors. Only the emulated device counts.

#include "calls.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "laconic/cuda.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/placed_values.h"

namespace laconic::test {
namespace {

struct Bound {
  const char* method;
  int ranks;
  unsigned launches;  ///< of kernels, and copies; the most
  unsigned waits;
};

/// As many as ResNet-50 has.
std::vector<Tensor> many_tensors() {
  std::vector<Tensor> tensors;
  for (std::uint64_t i = 0; i < 161; ++i) tensors.push_back({"tensor" + std::to_string(i), 1 + i * 37 % 900});
  return tensors;
}

/// The second step of a rank: the first makes memory.
emulation::Calls calls_of_step(const Bound& bound, Communicator& communicator) {
  const auto place = cuda_place();
  const auto method = make_method(bound.method, small_options(method_row(bound.method)), communicator, *place);
  const std::vector<Tensor> tensors = many_tensors();
  method->register_tensors(tensors);
  const std::vector<float> zero(size_of(tensors), 0.5F);
  emulation::Calls before;
  for (std::uint32_t step = 0; step < 2; ++step) {
    PlacedValues values(*place, pull_gradient(zero, communicator.rank(), step));
    before = emulation::calls_of_thread();
    method->reduce({42, step, static_cast<std::uint32_t>(communicator.rank())}, values.view());
  }
  const emulation::Calls after = emulation::calls_of_thread();
  return {after.launches - before.launches, after.copies - before.copies, after.waits - before.waits};
}

class Calls : public testing::TestWithParam<Bound> {};

TEST_P(Calls, OfAStepStayFew) {
  const Bound bound = GetParam();
  run_ranks(bound.ranks, [&](Communicator& communicator) {
    const emulation::Calls calls = calls_of_step(bound, communicator);
    if (communicator.rank() == 0) std::printf("%s %d: %u %u %u\n", bound.method, bound.ranks, calls.launches, calls.copies, calls.waits);
    EXPECT_LE(calls.launches + calls.copies, bound.launches);
    EXPECT_LE(calls.waits, bound.waits);
  });
}

INSTANTIATE_TEST_SUITE_P(Methods, Calls,
                         testing::Values(Bound{"signsgd", 1, 50, 10}, Bound{"signsgd", 4, 50, 10},
                                         Bound{"signum", 1, 50, 10}, Bound{"signum", 4, 50, 10},
                                         Bound{"qsgd", 1, 50, 10}, Bound{"qsgd", 4, 50, 10},
                                         Bound{"terngrad", 1, 50, 10}, Bound{"terngrad", 4, 50, 10},
                                         Bound{"dqsgd", 1, 50, 10}, Bound{"dqsgd", 4, 50, 10},
                                         Bound{"sgd", 1, 50, 10}, Bound{"sgd", 4, 50, 10},
                                         Bound{"topk", 1, 50, 10}, Bound{"topk", 4, 50, 10}));

}  // namespace
}  // namespace laconic::test
