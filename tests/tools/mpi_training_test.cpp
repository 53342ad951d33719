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

#if LACONIC_TORCH

// Threads share one process, and torch's generator: dropout is drawn by sample from streams of our own.
TEST_F(MpiFiles, NetworkWithDropoutEndsWithTheModelOfThreads) {
  fs::create_directories(file("ag-news"));
  std::ofstream rows(file("ag-news/test.csv"));
  for (int i = 0; i < 95; ++i) rows << 1 + i % 4 << ",title " << i % 7 << ",some text of " << i % 11 << " words\n";
  rows.close();
  const std::string flags =
      " --task ag-news --model bilstm --method topk --steps 8 --batch 4 --eval-interval 4 --data" +
      quoted(folder_.string()) + "--out";
  const Outcome threads = laconic("train --workers 4" + flags + quoted(file("threads")));
  ASSERT_EQ(threads.code, 0) << threads.text;
  MpiJob job = mpi("train" + flags + quoted(file("mpi")), "said");
  ASSERT_EQ(job.wait(), 0) << job.said();
  expect_same_runs("mpi", "threads");
}

// The workers' statistics differ, so they are in the checkpoint, which threads write and processes go on from.
TEST_F(MpiFiles, NetworkWithBatchNormGoesOnWithTheBitsOfThreads) {
  const Outcome threads = laconic(
      "train --workers 4 --task digits --model resnet20 --method lgrawa --period 2 --train-samples 40 --test-samples "
      "20 "
      "--batch 2 --steps 5 --eval-interval 1 --checkpoint-interval 3 --out" +
      quoted(file("threads")));
  ASSERT_EQ(threads.code, 0) << threads.text;
  fs::copy(file("threads"), file("mpi"), fs::copy_options::recursive);
  for (const char* name : {"mpi/result.json", "mpi/model.safetensors"}) fs::remove(file(name));
  MpiJob job = mpi("train --resume" + quoted(file("mpi")), "said");
  ASSERT_EQ(job.wait(), 0) << job.said();
  EXPECT_EQ(metrics("mpi").size(), 5U);
  expect_same_runs("mpi", "threads");
}

#endif

}  // namespace
}  // namespace laconic::test
