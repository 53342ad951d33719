#include <torch/types.h>

#include "torch/models/families.h"

// Residual networks (He, Zhang, Ren, Sun 2016).

namespace laconic::nets {
namespace {

/// How a block's input reaches its output where their shapes differ.
enum class Shortcut : std::uint8_t {
  projection,  ///< a 1×1 convolution and batch norm (the paper's option B)
  zeros,       ///< every second pixel, and zeros for the new channels behind the old (option A): no parameters
};

struct BlockShape {
  int in = 0;
  int width = 0;
  int stride = 1;
  bool bottleneck = false;
  Shortcut shortcut = Shortcut::projection;

  int out() const { return bottleneck ? 4 * width : width; }
};

class ResidualBlock : public torch::nn::Module {
 public:
  ResidualBlock(Builder& builder, const BlockShape& shape) : shape_(shape) {
    if (shape.bottleneck) {  // the stride in the 3×3 convolution, as in torchvision
      add(builder, {.in = shape.in, .out = shape.width, .kernel = 1});
      add(builder, {.in = shape.width, .out = shape.width, .stride = shape.stride});
      add(builder, {.in = shape.width, .out = shape.out(), .kernel = 1});
    } else {
      add(builder, {.in = shape.in, .out = shape.width, .stride = shape.stride});
      add(builder, {.in = shape.width, .out = shape.width});
    }
    if (same_shape() || shape.shortcut == Shortcut::zeros) return;
    const auto downsample = register_module("downsample", std::make_shared<torch::nn::Module>());
    const ConvolutionShape projection{.in = shape.in, .out = shape.out(), .kernel = 1, .stride = shape.stride};
    projection_ = downsample->register_module("0", std::make_shared<Convolution>(builder, projection));
    projection_norm_ = downsample->register_module("1", std::make_shared<BatchNorm>(builder, shape.out()));
  }

  torch::Tensor forward(const torch::Tensor& input) const {
    torch::Tensor values = input;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) values = torch::relu(values);
      values = norms_[i]->forward(convolutions_[i]->forward(values));
    }
    return torch::relu(values + carried(input));
  }

 private:
  void add(Builder& builder, const ConvolutionShape& shape) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(register_module("conv" + number, std::make_shared<Convolution>(builder, shape)));
    norms_.push_back(register_module("bn" + number, std::make_shared<BatchNorm>(builder, shape.out)));
  }

  bool same_shape() const { return shape_.stride == 1 && shape_.in == shape_.out(); }

  torch::Tensor carried(const torch::Tensor& input) const {
    if (same_shape()) return input;
    if (projection_) return projection_norm_->forward(projection_->forward(input));
    const torch::Tensor thinned =
        input.slice(2, 0, std::nullopt, shape_.stride).slice(3, 0, std::nullopt, shape_.stride);
    return torch::constant_pad_nd(thinned, {0, 0, 0, 0, 0, shape_.out() - shape_.in});
  }

  BlockShape shape_;
  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<BatchNorm>> norms_;
  std::shared_ptr<Convolution> projection_;
  std::shared_ptr<BatchNorm> projection_norm_;
};

struct Plan {
  std::vector<int> blocks;  ///< of each stage; a stage has twice the width of the one before and half its size
  int width = 64;
  bool bottleneck = false;
  Shortcut shortcut = Shortcut::projection;
};

class ResNet : public Network {
 public:
  ResNet(Builder& builder, const InputShape& input, int classes, const Plan& plan)
      : Network(builder.conditions()), large_(std::min(input.height, input.width) >= 64 && plan.width == 64) {
    ConvolutionShape stem{.in = input.channels, .out = plan.width};
    if (large_) stem.kernel = 7, stem.stride = 2;
    conv1_ = register_module("conv1", std::make_shared<Convolution>(builder, stem));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm>(builder, plan.width));
    BlockShape shape{plan.width, plan.width, 1, plan.bottleneck, plan.shortcut};
    for (std::size_t s = 0; s < plan.blocks.size(); ++s) {
      const auto stage = std::make_shared<Stage<ResidualBlock>>();
      for (int block = 0; block < plan.blocks[s]; ++block) {
        shape.stride = s > 0 && block == 0 ? 2 : 1;
        stage->add(builder, shape);
        shape.in = shape.out();
      }
      stages_.push_back(register_module("layer" + std::to_string(s + 1), stage));
      shape.width *= 2;
    }
    fc_ = register_module("fc", std::make_shared<Linear>(builder, shape.in, classes));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor values = torch::relu(bn1_->forward(conv1_->forward(input)));
    if (large_) values = torch::max_pool2d(values, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (const auto& stage : stages_) values = stage->forward(values);
    return fc_->forward(global_mean(values));
  }

 private:
  bool large_;  ///< ImageNet's stem: 7×7 with stride 2, then 3×3 max-pool with stride 2
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<Stage<ResidualBlock>>> stages_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

NetworkPointer make_resnet18(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<ResNet>(builder, input, classes, Plan{.blocks = {2, 2, 2, 2}});
}
NetworkPointer make_resnet20(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<ResNet>(builder, input, classes,
                                  Plan{.blocks = {3, 3, 3}, .width = 16, .shortcut = Shortcut::zeros});
}
NetworkPointer make_resnet34(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<ResNet>(builder, input, classes, Plan{.blocks = {3, 4, 6, 3}});
}
NetworkPointer make_resnet50(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<ResNet>(builder, input, classes, Plan{.blocks = {3, 4, 6, 3}, .bottleneck = true});
}

}  // namespace laconic::nets
