// Ranks that are threads and ranks that are processes of the program end with the same bits.

#include "tools/mpi_files.h"

namespace laconic::test {
namespace {

class MpiMethod : public MpiFiles, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Some, MpiMethod, testing::Values("sgd", "topk", "def", "mgrawa --period 8"),
                         [](const auto& test) {
                           const std::string text = test.param;
                           return text.substr(0, text.find(' '));
                         });

TEST_P(MpiMethod, EndsWithTheModelOfThreads) {
  const std::string flags =
      std::string("--steps 50 --eval-interval 10 --checkpoint-interval 49 --method ") + GetParam();
  const Outcome threads = train_threads(flags, "threads");
  ASSERT_EQ(threads.code, 0) << threads.text;
  MpiJob job = mpi(train_flags(flags, "mpi"), "said");
  ASSERT_EQ(job.wait(), 0) << job.said();
  EXPECT_EQ(json("mpi/config.json"), json("threads/config.json"));
  EXPECT_EQ(metrics("mpi").size(), 50U);
  expect_same_runs("mpi", "threads");
  expect_same_checkpoints("mpi", "threads", 49);
}

}  // namespace
}  // namespace laconic::test
