// A network on flat buffers: the same numbers as one on torch's own memory, and word of each gradient as it comes.

#include "torch/train/flat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/buffer.h"
#include "laconic/error.h"
#include "support/support.h"
#include "torch/networks.h"

namespace laconic {
namespace {

using nets::make_network;
using test::contains;
using test::images;
using test::message_of;

torch::Tensor tensor_of(View<const float> view) {
  return torch::from_blob(const_cast<float*>(view.data()), {static_cast<std::int64_t>(view.size())}).clone();
}

class FlatNetworks : public ::testing::TestWithParam<const char*> {
 protected:
  InputShape shape_ = std::string(GetParam()) == "bilstm" ? test::texts(7, 30) : images(3, 16);
  std::shared_ptr<nets::Network> plain_ = make_network(GetParam(), shape_, 10, 4);
  std::size_t size_ = nets::parameter_count(*plain_);
  Buffer<float> parameters_{size_};
  Buffer<float> gradient_{size_};
  FlatNetwork flat_{make_network(GetParam(), shape_, 10, 4), parameters_.view(size_), gradient_.view(size_)};
  torch::Tensor input_ = test::some_input(shape_, 8);

  void SetUp() override { flat_.zero_gradient(); }
};

INSTANTIATE_TEST_SUITE_P(Models, FlatNetworks, ::testing::Values("mlp", "cnn", "resnet20", "bilstm"),
                         [](const auto& model) { return std::string(model.param); });

TEST_P(FlatNetworks, ListTheirTensors) {
  const auto named = plain_->named_parameters();
  ASSERT_EQ(flat_.tensors().size(), named.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(flat_.tensors()[i].name, named[i].key());
    EXPECT_EQ(flat_.tensors()[i].size, static_cast<std::uint64_t>(named[i].value().numel()));
  }
  EXPECT_EQ(flat_.size(), size_);
}

TEST_P(FlatNetworks, StartAsTheirNetworkDid) {
  EXPECT_EQ(flat_.parameters().data(), parameters_.view().data());
  EXPECT_TRUE(tensor_of(flat_.parameters()).equal(test::flattened(plain_->parameters())));
}

TEST_P(FlatNetworks, GiveTheGradientsOfAPlainNetwork) {
  for (int pass = 0; pass < 2; ++pass) {
    test::loss_of(*plain_, input_).backward();
    const torch::Tensor loss = test::loss_of(flat_.network(), input_);
    loss.backward();
    EXPECT_TRUE(tensor_of(gradient_.view(size_)).equal(test::gradients_of(*plain_))) << "after pass " << pass;
  }
  EXPECT_TRUE(tensor_of(flat_.buffers()).equal(test::flattened(plain_->buffers())));
  const torch::Tensor twice = tensor_of(flat_.gradient());
  EXPECT_GT(twice.abs().max().item<float>(), 0.0F);
  flat_.zero_gradient();
  EXPECT_EQ(tensor_of(flat_.gradient()).abs().max().item<float>(), 0.0F);
}

TEST_P(FlatNetworks, MoveToAnotherPointAndBack) {
  Buffer<float> elsewhere(size_), other_gradient(size_);
  std::transform(flat_.parameters().begin(), flat_.parameters().end(), elsewhere.view().begin(),
                 [](float value) { return value * 0.5F; });
  const torch::Tensor point = tensor_of(elsewhere.view());
  const float here = test::loss_of(flat_.network(), input_).item<float>();
  flat_.rebind(elsewhere.view());
  flat_.rebind_gradient(other_gradient.view());
  flat_.zero_gradient();
  const torch::Tensor loss = test::loss_of(flat_.network(), input_);
  loss.backward();

  const torch::Tensor start = test::flattened(plain_->parameters());
  {
    const torch::NoGradGuard no_gradients;
    for (torch::Tensor& parameter : plain_->parameters()) parameter.mul_(0.5);
  }
  const torch::Tensor expected = test::loss_of(*plain_, input_);
  expected.backward();
  EXPECT_EQ(loss.item<float>(), expected.item<float>());
  EXPECT_TRUE(tensor_of(other_gradient.view()).equal(test::gradients_of(*plain_)));
  EXPECT_TRUE(tensor_of(elsewhere.view()).equal(point)) << "the other point was written to";
  EXPECT_TRUE(tensor_of(parameters_.view(size_)).equal(start)) << "the first point was written to";
  EXPECT_EQ(tensor_of(gradient_.view(size_)).abs().max().item<float>(), 0.0F) << "the first gradient was written to";

  flat_.rebind(parameters_.view(size_));
  EXPECT_EQ(test::loss_of(flat_.network(), input_).item<float>(), here);
}

// The libraries behind torch may take another way through memory that is aligned otherwise: not to other bits.
TEST_P(FlatNetworks, ComputeTheSameWhereverTheirMemoryLies) {
  test::loss_of(flat_.network(), input_).backward();
  const torch::Tensor aligned = tensor_of(flat_.gradient());
  Buffer<float> point(size_ + 16), gradient(size_ + 16);
  for (const std::size_t shift : {1, 4, 15}) {
    std::copy_n(parameters_.view().begin(), size_, point.view().begin() + shift);
    flat_.rebind(point.view().sub(shift, size_));
    flat_.rebind_gradient(gradient.view().sub(16 - shift, size_));
    flat_.zero_gradient();
    test::loss_of(flat_.network(), input_).backward();
    EXPECT_TRUE(tensor_of(flat_.gradient()).equal(aligned)) << shift << " floats off";
  }
}

// Each tensor is told once a pass, when its gradient does not change any more; the last layer's come first.
TEST_P(FlatNetworks, TellWhichGradientIsReady) {
  const std::uint32_t count = static_cast<std::uint32_t>(flat_.tensors().size());
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::uint32_t> order;
    torch::Tensor seen = torch::zeros({static_cast<std::int64_t>(size_)});
    flat_.on_gradient_ready([&](std::uint32_t tensor) {
      order.push_back(tensor);
      const View<float> values = flat_.gradient(tensor);
      const auto offset = values.data() - flat_.gradient().data();
      seen.slice(0, offset, offset + static_cast<std::int64_t>(values.size())).copy_(tensor_of(values));
    });
    flat_.zero_gradient();
    test::loss_of(flat_.network(), input_).backward();
    EXPECT_TRUE(seen.equal(tensor_of(flat_.gradient()))) << "a gradient changed after it was called ready";
    std::vector<std::uint32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(sorted, all) << "pass " << pass;
    EXPECT_GE(std::min(order[0], order[1]), count - 2) << "the linear layer at the end is not the first";
    EXPECT_LE(order.back(), 2U) << "the first layer is not the last";
  }
}

TEST_P(FlatNetworks, StopTelling) {
  int told = 0;
  flat_.on_gradient_ready([&](std::uint32_t) { ++told; });
  flat_.on_gradient_ready({});
  test::loss_of(flat_.network(), input_).backward();
  EXPECT_EQ(told, 0);
}

TEST(FlatNetwork, ReportsTheLayersOfTheCnnFromLastToFirst) {
  const auto shape = images(1, 16);
  FlatNetwork flat(make_network("cnn", shape, 10, 4));
  Buffer<float> gradient(flat.size());
  flat.rebind_gradient(gradient.view(flat.size()));
  std::vector<std::string> layers;
  flat.on_gradient_ready([&](std::uint32_t tensor) {
    const std::string& name = flat.tensors()[tensor].name;
    layers.push_back(name.substr(0, name.find('.')));
  });
  test::loss_of(flat.network(), test::some_input(shape, 4)).backward();
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  EXPECT_EQ(layers, (std::vector<std::string>{"fc2", "fc1", "conv3", "conv2", "conv1"}));
}

TEST(FlatNetwork, LetsAnExceptionLeaveBackward) {
  const auto shape = images(1, 8);
  FlatNetwork flat(make_network("mlp", shape, 10, 4));
  Buffer<float> gradient(flat.size());
  flat.rebind_gradient(gradient.view(flat.size()));
  flat.on_gradient_ready([](std::uint32_t) { throw TransportError("rank 3 is gone"); });
  const std::string said =
      message_of<TransportError>([&] { test::loss_of(flat.network(), test::some_input(shape, 4)).backward(); });
  EXPECT_EQ(said, "rank 3 is gone");
}

TEST(FlatNetwork, SharesItsBuffersWithBatchNorm) {
  const auto shape = images(3, 8);
  FlatNetwork flat(make_network("resnet20", shape, 10, 4));
  ASSERT_EQ(flat.buffer_tensors().size(), 38U);
  EXPECT_EQ(flat.buffer_tensors()[0].name, "bn1.running_mean");
  EXPECT_EQ(flat.buffers()[0], 0.0F);
  const torch::Tensor input = test::some_input(shape, 4);
  test::loss_of(flat.network(), input);
  EXPECT_NE(flat.buffers()[0], 0.0F) << "training did not reach the view";
  flat.network().eval();
  const float before = test::loss_of(flat.network(), input).item<float>();
  flat.buffers()[0] += 1.0F;
  EXPECT_NE(test::loss_of(flat.network(), input).item<float>(), before) << "the view does not reach evaluation";
}

TEST(FlatNetwork, RefusesMemoryThatDoesNotFit) {
  FlatNetwork flat(make_network("mlp", images(1, 4), 10, 4));
  Buffer<float> memory(flat.size() + 16);
  const auto refusal = [&](View<float> view) { return message_of<InvalidConfig>([&] { flat.rebind(view); }); };
  EXPECT_PRED2(contains, refusal(memory.view(flat.size() - 1)), "parameters");
  EXPECT_PRED2(contains, refusal(View<float>(memory.view().data(), flat.size(), Device::cuda)), "cuda");
  EXPECT_PRED2(contains, message_of<InvalidConfig>([&] { flat.gradient(); }), "rebind_gradient");
}

}  // namespace
}  // namespace laconic
