#pragma once

#include "torch/models/layers.h"

// One function per row of the table, each in the file of its family.

namespace laconic::nets {

using NetworkPointer = std::shared_ptr<Network>;

NetworkPointer make_mlp(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_cnn(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_resnet18(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_resnet20(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_resnet34(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_resnet50(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_wrn28_10(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_vgg16(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_bilstm(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_gpt(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
NetworkPointer make_gpt_small(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);

/// [batch, channels, height, width] to the mean of each channel, [batch, channels].
inline torch::Tensor global_mean(const torch::Tensor& input) { return input.mean({2, 3}); }

/// A module named by its place in a row, as in torch::nn::Sequential: layer1.0, layer1.1, …
template <class Block>
class Stage : public torch::nn::Module {
 public:
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    const std::string name = std::to_string(blocks_.size());
    blocks_.push_back(register_module(name, std::make_shared<Block>(std::forward<Arguments>(arguments)...)));
  }
  torch::Tensor forward(torch::Tensor values) const {
    for (const auto& block : blocks_) values = block->forward(values);
    return values;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace laconic::nets
