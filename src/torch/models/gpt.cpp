#include <torch/types.h>

#include <cmath>

#include "torch/models/families.h"

// gpt and gpt-small: a decoder of characters. Layer norms come before attention and before the two linear layers, the
// residual is a plain sum, no layer has a bias, and the matrix that embeds characters also makes the logits. Names and
// initial distributions are those of the public small GPT trainers, so that their models load our files.

namespace laconic::nets {
namespace {

struct Size {
  int layers;
  int heads;
  int width;
  double dropout;
};

constexpr Size kGpt{.layers = 6, .heads = 6, .width = 384, .dropout = 0.2};
constexpr Size kSmall{.layers = 3, .heads = 4, .width = 128, .dropout = 0.0};
constexpr double kDeviation = 0.02;

/// A tensor of normal(0, deviation²), as a module with one parameter.
class Matrix : public torch::nn::Module {
 public:
  Matrix(Builder& builder, int rows, int columns, double deviation)
      : weight_(register_parameter("weight", builder.normal({rows, columns}).mul_(deviation))) {}
  const torch::Tensor& weight() const { return weight_; }
  torch::Tensor apply(const torch::Tensor& input) const { return torch::linear(input, weight_); }

 private:
  torch::Tensor weight_;
};

class LayerNorm : public torch::nn::Module {
 public:
  LayerNorm(Builder& builder, int width) : weight_(register_parameter("weight", builder.constant({width}, 1.0))) {}
  torch::Tensor forward(const torch::Tensor& input) const { return torch::layer_norm(input, weight_.sizes(), weight_); }

 private:
  torch::Tensor weight_;
};

/// Each character attends to itself and to those before it. The steps are written out: torch's fused attention draws
/// dropout from its own generator, has no second derivative, and on a GPU adds in no fixed order.
class Attention : public torch::nn::Module {
 public:
  Attention(Builder& builder, const Size& size, double dropout, double residual_deviation)
      : heads_(size.heads),
        c_attn_(register_module("c_attn", std::make_shared<Matrix>(builder, 3 * size.width, size.width, kDeviation))),
        c_proj_(register_module("c_proj",
                                std::make_shared<Matrix>(builder, size.width, size.width, residual_deviation))),
        attn_dropout_(register_module("attn_dropout", std::make_shared<Dropout>(builder, dropout))),
        resid_dropout_(register_module("resid_dropout", std::make_shared<Dropout>(builder, dropout))) {}

  /// `hidden`: [length, length], true where a character must not look.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& hidden) const {
    const std::int64_t batch = input.size(0), length = input.size(1), width = input.size(2);
    const auto parts = c_attn_->apply(input).split(width, 2);
    const auto by_head = [&](const torch::Tensor& part) {
      return part.view({batch, length, heads_, width / heads_}).transpose(1, 2);
    };
    const torch::Tensor query = by_head(parts[0]) / std::sqrt(static_cast<double>(width / heads_));
    const torch::Tensor scores = torch::matmul(query, by_head(parts[1]).transpose(2, 3));
    const torch::Tensor shares = torch::softmax(scores.masked_fill(hidden, -HUGE_VAL), 3);
    const torch::Tensor mixed = torch::matmul(attn_dropout_->forward(shares), by_head(parts[2]));
    return resid_dropout_->forward(c_proj_->apply(mixed.transpose(1, 2).reshape({batch, length, width})));
  }

 private:
  std::int64_t heads_;
  std::shared_ptr<Matrix> c_attn_, c_proj_;
  std::shared_ptr<Dropout> attn_dropout_, resid_dropout_;
};

class FeedForward : public torch::nn::Module {
 public:
  FeedForward(Builder& builder, const Size& size, double dropout, double residual_deviation)
      : c_fc_(register_module("c_fc", std::make_shared<Matrix>(builder, 4 * size.width, size.width, kDeviation))),
        c_proj_(register_module("c_proj",
                                std::make_shared<Matrix>(builder, size.width, 4 * size.width, residual_deviation))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(builder, dropout))) {}

  torch::Tensor forward(const torch::Tensor& input) const {
    return dropout_->forward(c_proj_->apply(torch::gelu(c_fc_->apply(input))));
  }

 private:
  std::shared_ptr<Matrix> c_fc_, c_proj_;
  std::shared_ptr<Dropout> dropout_;
};

class Block : public torch::nn::Module {
 public:
  Block(Builder& builder, const Size& size, double dropout)
      : Block(builder, size, dropout, kDeviation / std::sqrt(2.0 * size.layers)) {}

  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& hidden) const {
    const torch::Tensor attended = input + attn_->forward(ln_1_->forward(input), hidden);
    return attended + mlp_->forward(ln_2_->forward(attended));
  }

 private:
  /// The deviation of what is added to the residual, so that the sum over all blocks starts as large as one part.
  Block(Builder& builder, const Size& size, double dropout, double residual_deviation)
      : ln_1_(register_module("ln_1", std::make_shared<LayerNorm>(builder, size.width))),
        attn_(register_module("attn", std::make_shared<Attention>(builder, size, dropout, residual_deviation))),
        ln_2_(register_module("ln_2", std::make_shared<LayerNorm>(builder, size.width))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(builder, size, dropout, residual_deviation))) {}

  std::shared_ptr<LayerNorm> ln_1_;
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<LayerNorm> ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

class Gpt : public Network {
 public:
  Gpt(Builder& builder, const InputShape& input, int classes, const Size& size, double dropout)
      : Network(builder.conditions()),
        transformer_(register_module("transformer", std::make_shared<torch::nn::Module>())),
        wte_(part("wte", std::make_shared<Matrix>(builder, classes, size.width, kDeviation))),
        wpe_(part("wpe", std::make_shared<Matrix>(builder, input.length, size.width, kDeviation))),
        drop_(part("drop", std::make_shared<Dropout>(builder, dropout))) {
    const auto blocks = part("h", std::make_shared<torch::nn::Module>());
    for (int i = 0; i < size.layers; ++i) {
      blocks_.push_back(blocks->register_module(std::to_string(i), std::make_shared<Block>(builder, size, dropout)));
    }
    ln_f_ = part("ln_f", std::make_shared<LayerNorm>(builder, size.width));
  }

  /// Takes any number of characters up to the context.
  torch::Tensor forward(const torch::Tensor& input) override {
    const std::int64_t length = input.size(1);
    const torch::Tensor hidden =
        torch::ones({length, length}, torch::device(input.device()).dtype(torch::kBool)).triu(1);
    torch::Tensor values = torch::embedding(wte_->weight(), input) + wpe_->weight().narrow(0, 0, length);
    values = drop_->forward(values);
    for (const auto& block : blocks_) values = block->forward(values, hidden);
    return wte_->apply(ln_f_->forward(values)).flatten(0, 1);
  }

 private:
  template <class Module>
  std::shared_ptr<Module> part(const char* name, std::shared_ptr<Module> module) {
    return transformer_->register_module(name, std::move(module));
  }

  std::shared_ptr<torch::nn::Module> transformer_;
  std::shared_ptr<Matrix> wte_, wpe_;
  std::shared_ptr<Dropout> drop_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<LayerNorm> ln_f_;
};

}  // namespace

NetworkPointer make_gpt(Builder& builder, const InputShape& input, int classes, const ModelOptions& options) {
  return std::make_shared<Gpt>(builder, input, classes, kGpt, options.dropout.value_or(kGpt.dropout));
}
NetworkPointer make_gpt_small(Builder& builder, const InputShape& input, int classes, const ModelOptions& options) {
  return std::make_shared<Gpt>(builder, input, classes, kSmall, options.dropout.value_or(kSmall.dropout));
}

}  // namespace laconic::nets
