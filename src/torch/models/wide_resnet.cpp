#include <torch/types.h>

#include "torch/models/families.h"

// Wide residual networks (Zagoruyko, Komodakis 2016): norm and ReLU stand before the convolutions.

namespace laconic::nets {
namespace {

struct WideShape {
  int in = 0;
  int out = 0;
  int stride = 1;
  double drop = 0.0;
};

class WideBlock : public torch::nn::Module {
 public:
  WideBlock(Builder& builder, const WideShape& shape)
      : bn1_(register_module("bn1", std::make_shared<BatchNorm>(builder, shape.in))),
        conv1_(convolution(builder, "conv1", {.in = shape.in, .out = shape.out, .stride = shape.stride})),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(builder, shape.out))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(builder, shape.drop))),
        conv2_(convolution(builder, "conv2", {.in = shape.out, .out = shape.out})) {
    if (shape.in == shape.out) return;
    shortcut_ =
        convolution(builder, "shortcut", {.in = shape.in, .out = shape.out, .kernel = 1, .stride = shape.stride});
  }

  torch::Tensor forward(const torch::Tensor& input) const {
    const torch::Tensor ready = torch::relu(bn1_->forward(input));
    const torch::Tensor middle = torch::relu(bn2_->forward(conv1_->forward(ready)));
    return conv2_->forward(dropout_->forward(middle)) + (shortcut_ ? shortcut_->forward(ready) : input);
  }

 private:
  std::shared_ptr<Convolution> convolution(Builder& builder, const char* name, const ConvolutionShape& shape) {
    return register_module(name, std::make_shared<Convolution>(builder, shape));
  }

  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn2_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Convolution> conv2_;
  std::shared_ptr<Convolution> shortcut_;
};

/// Depth 28: three stages of four blocks, ten times as wide as a plain residual network's.
class WideResNet : public Network {
 public:
  WideResNet(Builder& builder, const InputShape& input, int classes, double drop) : Network(builder.conditions()) {
    constexpr int kBlocks = 4, kWiden = 10, kStem = 16;
    conv1_ = register_module(
        "conv1", std::make_shared<Convolution>(builder, ConvolutionShape{.in = input.channels, .out = kStem}));
    WideShape shape{.in = kStem, .drop = drop};
    for (int s = 0; s < 3; ++s) {
      const auto stage = std::make_shared<Stage<WideBlock>>();
      shape.out = (kStem << s) * kWiden;
      for (int block = 0; block < kBlocks; ++block) {
        shape.stride = s > 0 && block == 0 ? 2 : 1;
        stage->add(builder, shape);
        shape.in = shape.out;
      }
      stages_.push_back(register_module("layer" + std::to_string(s + 1), stage));
    }
    bn_ = register_module("bn", std::make_shared<BatchNorm>(builder, shape.in));
    fc_ = register_module("fc", std::make_shared<Linear>(builder, shape.in, classes));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor values = conv1_->forward(input);
    for (const auto& stage : stages_) values = stage->forward(values);
    return fc_->forward(global_mean(torch::relu(bn_->forward(values))));
  }

 private:
  std::shared_ptr<Convolution> conv1_;
  std::vector<std::shared_ptr<Stage<WideBlock>>> stages_;
  std::shared_ptr<BatchNorm> bn_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

NetworkPointer make_wrn28_10(Builder& builder, const InputShape& input, int classes, const ModelOptions& options) {
  return std::make_shared<WideResNet>(builder, input, classes, options.dropout.value_or(0.0));
}

}  // namespace laconic::nets
