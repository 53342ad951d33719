// Networks on a GPU: torch and our kernels in one order, the CPU's numbers but for rounding, the same bits in every run
// and on every rank. Skipped, and says so, where none can be used.

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/buffer.h"
#include "base/transfer.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "methods/table.h"
#include "support/method_names.h"
#include "support/support.h"
#include "support/temporary_folder.h"
#include "torch/networks.h"
#include "torch/train/device.h"
#include "torch/train/flat.h"
#include "torch/train/small_run.h"
#include "torch/train/task_workload.h"
#if LACONIC_TOOLS
#include "torch/train/safetensors.h"
#endif

namespace laconic {
namespace {

RunConfig small_run(const std::string& method, const std::string& model = "cnn") {
  RunConfig config = test::small_run(method, model);
  config.task.device = "cuda";
  return config;
}

using test::run;

/// Why there is no GPU for networks here, or empty.
std::string obstacle() {
  try {
    require_training_device("cuda");
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return {};
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
    place_ = training_place(small_run("sgd"));
  }

  std::shared_ptr<Place> place_;
};

/// A network on the GPU, its model and its gradient.
struct OnGpu {
  OnGpu(const std::shared_ptr<Place>& place, const std::shared_ptr<nets::Network>& made) : on_place(*place) {
    Place& where = *place;
    made->compute_on(place);
    const std::uint64_t size = nets::parameter_count(*made);
    model.reserve(where, size);
    gradient.reserve(where, size);
    network = std::make_unique<FlatNetwork>(made, model.view(size), gradient.view(size));
    network->zero_gradient();
  }

  TorchOnPlace on_place;
  Buffer<float> model;
  Buffer<float> gradient;
  std::unique_ptr<FlatNetwork> network;
};

std::vector<float> host_copy(Place& place, View<const float> values) {
  std::vector<float> here(values.size());
  copy_to_cpu(place, values, here.data());
  return here;
}

TEST_F(Gpu, OrdersTorchAndOurKernels) {
  const TorchOnPlace on_place(*place_);
  Buffer<float> memory;
  memory.reserve(*place_, 1 << 22);
  const View<float> values = memory.view(1 << 22);
  const torch::Tensor tensor =
      torch::from_blob(values.data(), {1 << 22}, torch::device(torch::Device(torch::kCUDA, 0)));
  fill(*place_, 0.0F, values);
  for (int i = 0; i < 50; ++i) {
    tensor.add_(1.0);                     // torch's
    axpy(*place_, 1.0F, values, values);  // ours: twice as much
  }
  double expected = 0.0;
  for (int i = 0; i < 50; ++i) expected = 2.0 * static_cast<double>(static_cast<float>(expected) + 1.0F);
  const auto found = host_copy(*place_, values);
  EXPECT_EQ(found.front(), static_cast<float>(expected));
  EXPECT_EQ(found.back(), static_cast<float>(expected));
}

TEST_F(Gpu, TellsOfGradientsInTheThreadOfBackward) {
  const auto shape = test::images(1, 16);
  OnGpu gpu(place_, nets::make_network("cnn", shape, 10, 4));
  std::size_t told = 0;
  gpu.network->on_gradient_ready([&, here = std::this_thread::get_id()](std::uint32_t) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    ++told;
  });
  const torch::Tensor input = test::some_input(shape, 4).to(gpu.network->device());
  const torch::Tensor labels = torch::arange(4, torch::kLong).to(gpu.network->device());
  torch::cross_entropy_loss(gpu.network->network().forward(input), labels).backward();
  EXPECT_EQ(told, gpu.network->tensors().size());
}

// Sums are rounded in another order, and an activation near zero may change sides. A wrong gradient is off by as much as
// its largest entry.
TEST_F(Gpu, ComputesTheGradientsOfTheCpu) {
  const std::vector<std::pair<const char*, InputShape>> all{{"mlp", test::images(1, 8)},
                                                            {"cnn", test::images(1, 16)},
                                                            {"resnet18", test::images(3, 32)},
                                                            {"bilstm", test::texts(8, 50)}};
  for (const auto& [name, shape] : all) {
    SCOPED_TRACE(name);
    const auto plain = nets::make_network(name, shape, 10, 4);
    const torch::Tensor input = test::some_input(shape, 6);
    const torch::Tensor labels = torch::arange(6, torch::kLong);
    const torch::Tensor expected_loss = torch::cross_entropy_loss(plain->forward(input), labels);
    expected_loss.backward();
    const torch::Tensor expected = test::gradients_of(*plain);

    OnGpu gpu(place_, nets::make_network(name, shape, 10, 4));
    const auto device = gpu.network->device();
    const torch::Tensor loss =
        torch::cross_entropy_loss(gpu.network->network().forward(input.to(device)), labels.to(device));
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected_loss.item<double>(), 1e-3);
    const auto found = host_copy(*place_, gpu.network->gradient());
    const torch::Tensor difference =
        torch::from_blob(const_cast<float*>(found.data()), {static_cast<std::int64_t>(found.size())}) - expected;
    EXPECT_LT(difference.abs().max().item<double>(), 5e-3 * expected.abs().max().item<double>());
  }
}

class GpuRuns : public Gpu, public testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Table, GpuRuns, testing::ValuesIn(test::method_names()),
                         [](const auto& row) { return test::test_name(row.param); });

TEST_P(GpuRuns, TrainTheSameTwiceAndOnAllRanks) {
  RunConfig config = small_run(GetParam(), "mlp");
  const auto first = run(config);
  EXPECT_EQ(run(config).front().model, first.front().model);
  for (const RunResult& result : first) {
    EXPECT_EQ(result.model, first.front().model);
    EXPECT_EQ(result.loss, first.front().loss);
    if (method_row(GetParam()).face == Face::gradient) {  // the others keep a point of their own
      EXPECT_EQ(result.worker_model, first.front().worker_model);
    }
  }
  config.steps = 0;
  EXPECT_LT(first.front().loss, run(config).front().loss);
}

TEST_P(GpuRuns, ContinueWithTheSameBits) {
  const test::TemporaryFolder folder;
  RunConfig config = small_run(GetParam());
  config.checkpoint_interval = 8;
  const auto straight = run(config, {.folder = folder.path()});
  const auto kept = find_checkpoints(folder.path());
  ASSERT_EQ(kept.size(), 1U);
  const auto resumed = run(config, {.resume = kept.front()});
  for (std::size_t rank = 0; rank < straight.size(); ++rank) {
    EXPECT_EQ(resumed[rank].worker_model, straight[rank].worker_model) << rank;
    EXPECT_EQ(resumed[rank].loss, straight[rank].loss) << rank;
  }
}

// With an adversary, batch norm and tensors that are handed over while backward runs.
TEST_F(Gpu, TrainsAsTheCpuDoes) {
  RunConfig config = small_run("sgd", "resnet20");
  config.adversaries = 1;
  config.steps = 3;
  const RunResult there = run(config).front();
  EXPECT_NE(there.device, "cpu");
  config.task.device = "cpu";
  const RunResult here = run(config).front();
  EXPECT_EQ(here.device, "cpu");
  EXPECT_NEAR(there.loss, here.loss, 0.01 * here.loss);
  // A device exchanges larger chunks, which have fewer headers.
  const auto sent = [](const RunResult& result) { return static_cast<double>(result.sent_by_rank.front()); };
  EXPECT_NEAR(sent(there), sent(here), 0.001 * sent(here));
}

TEST_F(Gpu, GivesAnIdleStreamToTheNextWorker) {
  Place* const used = place_.get();
  place_.reset();
  EXPECT_EQ(training_place(small_run("sgd")).get(), used);
}

#if LACONIC_TOOLS
TEST_F(Gpu, WritesTheTestedModel) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/model.safetensors";
  const RunResult result = run(small_run("sgd", "mlp"), {.model_file = file}).front();
  EXPECT_EQ(read_safetensors(file).memory, result.model);  // no running statistics behind
}
#endif

}  // namespace
}  // namespace laconic
