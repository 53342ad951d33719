// Threads of one process and processes of MPI end with the same bits.

#include <gtest/gtest.h>

#include <cstring>

#include "experiment/run.h"
#include "laconic/mpi.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"

namespace laconic {
namespace {

class MpiRun : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, MpiRun, testing::ValuesIn(test::method_names()),
                         [](const auto& each) { return test::test_name(each.param); });

/// `within`: ranks per host.
void expect_the_bits_of_threads(const std::string& method, int within) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  RunConfig config = default_config("logistic-regression");
  config.problem_settings = {{"dimension", 40}, {"points", 30}, {"tensors", 3}, {"batch", 8}};
  config.workers = communicator->size();
  config.steps = 15;
  config.learning_rate = 0.1;
  config.method = method;
  config.within = within;
  for (const Parameter& parameter : method_row(method).parameters) {
    if (parameter.name == std::string("keep")) config.options.keep = 0.2;
    if (parameter.name == std::string("ratio")) config.options.ratio = 4;
    if (parameter.name == std::string("period")) config.options.period = 4;
  }
  Observer silent;
  const RunResult processes = run_worker(config, *communicator, silent);
  const auto threads = run_threads(config);
  const RunResult& twin = threads[static_cast<std::size_t>(communicator->rank())];
  ASSERT_EQ(processes.model.size(), twin.model.size());
  EXPECT_EQ(std::memcmp(processes.model.data(), twin.model.data(), 4 * twin.model.size()), 0);
  EXPECT_EQ(std::memcmp(processes.worker_model.data(), twin.worker_model.data(), 4 * twin.worker_model.size()), 0);
  EXPECT_EQ(processes.sent_by_rank, twin.sent_by_rank);
  EXPECT_EQ(processes.received_by_rank, twin.received_by_rank);
  EXPECT_EQ(processes.inside_sent_by_rank, twin.inside_sent_by_rank);
  EXPECT_EQ(processes.inside_sent_by_rank.empty(), within == RunConfig::kOneLevel);
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

TEST_P(MpiRun, GivesTheBitsOfThreads) { expect_the_bits_of_threads(GetParam(), RunConfig::kOneLevel); }

TEST_P(MpiRun, GivesTheBitsOfThreadsOnTwoLevels) {
  if (method_row(GetParam()).face != Face::gradient) GTEST_SKIP() << "two levels are for gradient methods";
  for (int within = 1; within <= world_size(); ++within) {
    if (world_size() % within == 0) expect_the_bits_of_threads(GetParam(), within);
  }
  expect_the_bits_of_threads(GetParam(), RunConfig::kByHostName);
}

}  // namespace
}  // namespace laconic
