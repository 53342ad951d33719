// Every method of the table with gradients, model and memory where no code but a kernel's or a codec's front door can
// touch them (support/rehearsal.h): the same bits as in ordinary memory. A method or an exchange that indexes into a
// view ends this program.

#include <gtest/gtest.h>

#include "base/scratch_status.h"
#include "base/touch.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/topk/topk.h"
#include "methods/same_bits.h"
#include "support/rehearsal.h"

namespace laconic::test {
namespace {

class RehearsedMethod : public testing::TestWithParam<std::string> {
 protected:
  const MethodRow& row() const { return method_row(GetParam()); }
  static void check(const MethodRun& run, std::uint64_t chunk_entries, int most_optimizers) {
    rehearse_as(run.description);
    test::check(run, chunk_entries, most_optimizers, [](int) { return rehearsed_place(); });
  }
};

INSTANTIATE_TEST_SUITE_P(Table, RehearsedMethod, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(RehearsedMethod, GivesTheSameBitsWithEveryOptimizer) {
  check({&row(), small_options(row()), row().name}, kChunk, 100);
}

TEST_P(RehearsedMethod, GivesTheSameBitsWithFourRanksInOneChunk) {
  MethodRun run{&row(), small_options(row()), row().name};
  run.ranks = 4;
  check(run, 0, 1);
}

/// With a chunk per tensor, and with every word, because words choose how messages travel.
TEST_P(RehearsedMethod, StartsItsCallsInOneOrderOnAllRanks) {
  std::vector<MethodRun> runs = runs_with_words(row());
  runs.push_back({&row(), small_options(row()), row().name});
  for (MethodRun& run : runs) {
    run.ranks = 2;
    run.one_order = true;
    check(run, 1, 1);
  }
}

TEST_P(RehearsedMethod, GivesTheSameBitsWhenRanksJoinAndLeave) {
  rehearse_as(row().name + std::string(" when ranks join and leave"));
  check_joining_and_leaving(row(), [](int) { return rehearsed_place(); });
}

TEST_P(RehearsedMethod, GivesTheSameBitsWithEveryChoiceOfEveryWord) {
  for (const MethodRun& run : runs_with_words(row())) check(run, kChunk, 1);
}

TEST_P(RehearsedMethod, GivesTheSameBitsWithItsNumbers) {
  for (const MethodRun& run : runs_with_numbers(row())) check(run, kChunk, 1);
}

TEST_P(RehearsedMethod, TakesGradientsOf16Bits) {
  rehearse_as(row().name + std::string(" with gradients of 16 bits"));
  const auto check_one = [](const MethodRun& run) {
    for (const std::uint64_t chunk : {kChunk, std::uint64_t{0}}) {
      check_16bit_gradients(run, chunk, [](int) { return rehearsed_place(); });
    }
  };
  check_one({&row(), small_options(row()), row().name});
  for (const MethodRun& run : runs_with_words(row())) check_one(run);
  for (const MethodRun& run : runs_with_numbers(row())) check_one(run);
  if (row().face != Face::gradient) return;
  for (const NumberType type : {NumberType::float16, NumberType::bfloat16}) {
    check_two_levels({&row(), small_options(row()), row().name}, [](int) { return rehearsed_place(); }, type);
  }
}

/// Enough entries for all threads of a pool, in the memory of a place that has several.
TEST(RehearsedPlace, OpensItsMemoryToTheThreadsOfItsPool) {
  rehearse_as("kernels on three threads");
  const std::size_t n = 200'000;
  const auto steps = [&](Place& place) {
    Trace trace;
    PlacedValues gradient(place, normal_values(n, 1));
    PlacedValues residual(place, normal_values(n, 2));
    PlacedValues rest(place, normal_values(n, 3));
    Buffer<std::uint32_t> indices;
    indices.reserve(place, n / 100);
    PlacedValues values(place, std::vector<float>(n / 100));
    const ScratchStatus status(place);
    error_feedback_topk(place, gradient.view(), residual.view(), rest.view(), {indices.view(), values.view()},
                        status.view());
    const double squares = read_sum_of_squares(place, rest.view(), status.view());
    axpy(place, 0.5F, rest.view(), gradient.view());
    trace.note(squares);
    trace.note(values.get());
    trace.note(gradient.get());
    return trace;
  };
  Place ordinary({.threads = 3});
  const auto rehearsed = rehearsed_place({.threads = 3});
  EXPECT_FALSE(Trace::difference(steps(ordinary), steps(*rehearsed)).has_value());
}

TEST(RehearsedPlaceDeathTest, EndsTheProgramThatTouchesItsMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto place = rehearsed_place();
  rehearse_as("a loop of this test");
  PlacedValues values(*place, {1.0F, 2.0F});
  float sum = 0.0F;
  {
    const Touch outer(*place);
    const Touch inner(*place);
    for (const float value : values.view()) sum += value;
  }
  EXPECT_EQ(sum, 3.0F);
  fill(*place, 4.0F, values.view());  // opens, and closes again
  EXPECT_EQ(values.get(), (std::vector<float>{4.0F, 4.0F}));
  EXPECT_DEATH(
      {
        for (const float value : values.view()) sum += value;
        std::exit(sum > 0.0F ? 0 : 1);
      },
      "memory of a rehearsed place was touched outside a front door, by: a loop of this test");
}

}  // namespace
}  // namespace laconic::test
