#include <torch/types.h>

#include "torch/models/families.h"

// The small ones: mlp, cnn and vgg16.

namespace laconic::nets {
namespace {

/// Two hidden layers of 256, ReLU.
class Mlp : public Network {
 public:
  Mlp(Builder& builder, const InputShape& input, int classes)
      : Network(builder.conditions()),
        fc1_(register_module("fc1",
                             std::make_shared<Linear>(builder, input.channels * input.height * input.width, kHidden))),
        fc2_(register_module("fc2", std::make_shared<Linear>(builder, kHidden, kHidden))),
        fc3_(register_module("fc3", std::make_shared<Linear>(builder, kHidden, classes))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor first = torch::relu(fc1_->forward(input.flatten(1)));
    return fc3_->forward(torch::relu(fc2_->forward(first)));
  }

 private:
  static constexpr int kHidden = 256;
  std::shared_ptr<Linear> fc1_, fc2_, fc3_;
};

/// Three times convolution, ReLU, 2×2 max-pool, with 32, 64 and 128 channels; then 256 hidden units.
class Cnn : public Network {
 public:
  Cnn(Builder& builder, const InputShape& input, int classes)
      : Network(builder.conditions()),
        conv1_(convolution(builder, "conv1", input.channels, 32)),
        conv2_(convolution(builder, "conv2", 32, 64)),
        conv3_(convolution(builder, "conv3", 64, 128)),
        fc1_(register_module("fc1",
                             std::make_shared<Linear>(builder, 128 * (input.height / 8) * (input.width / 8), 256))),
        fc2_(register_module("fc2", std::make_shared<Linear>(builder, 256, classes))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor values = input;
    for (const auto& convolution : {conv1_, conv2_, conv3_}) {
      values = torch::max_pool2d(torch::relu(convolution->forward(values)), 2);
    }
    return fc2_->forward(torch::relu(fc1_->forward(values.flatten(1))));
  }

 private:
  std::shared_ptr<Convolution> convolution(Builder& builder, const char* name, int in, int out) {
    return register_module(
        name, std::make_shared<Convolution>(builder, ConvolutionShape{.in = in, .out = out, .bias = true}));
  }

  std::shared_ptr<Convolution> conv1_, conv2_, conv3_;
  std::shared_ptr<Linear> fc1_, fc2_;
};

/// Configuration D of Simonyan and Zisserman 2015 with batch norm after each convolution, and one linear layer on the
/// mean of the last map, as is usual for small images. A pooling is left out where the map is one pixel wide already.
class Vgg : public Network {
 public:
  Vgg(Builder& builder, const InputShape& input, int classes)
      : Network(builder.conditions()), features_(register_module("features", std::make_shared<torch::nn::Module>())) {
    int index = 0;  // as in torchvision: a ReLU and a pooling have numbers too
    int channels = input.channels;
    for (const int out : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512, kPool, 512, 512, 512}) {
      steps_.emplace_back();
      if (out == kPool) {
        ++index;
        continue;
      }
      const ConvolutionShape shape{.in = channels, .out = out, .bias = true};
      steps_.back().convolution =
          features_->register_module(std::to_string(index), std::make_shared<Convolution>(builder, shape));
      steps_.back().norm =
          features_->register_module(std::to_string(index + 1), std::make_shared<BatchNorm>(builder, out));
      index += 3;
      channels = out;
    }
    steps_.emplace_back();
    classifier_ = register_module("classifier", std::make_shared<Linear>(builder, channels, classes));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor values = input;
    for (const Step& step : steps_) {
      if (step.convolution) {
        values = torch::relu(step.norm->forward(step.convolution->forward(values)));
      } else if (values.size(2) > 1 && values.size(3) > 1) {
        values = torch::max_pool2d(values, 2);
      }
    }
    return classifier_->forward(global_mean(values));
  }

 private:
  static constexpr int kPool = 0;
  struct Step {  ///< without a convolution it is a pooling
    std::shared_ptr<Convolution> convolution{};
    std::shared_ptr<BatchNorm> norm{};
  };

  std::shared_ptr<torch::nn::Module> features_;
  std::vector<Step> steps_;
  std::shared_ptr<Linear> classifier_;
};

}  // namespace

NetworkPointer make_mlp(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<Mlp>(builder, input, classes);
}
NetworkPointer make_cnn(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<Cnn>(builder, input, classes);
}
NetworkPointer make_vgg16(Builder& builder, const InputShape& input, int classes, const ModelOptions& /*options*/) {
  return std::make_shared<Vgg>(builder, input, classes);
}

}  // namespace laconic::nets
