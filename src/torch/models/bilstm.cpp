#include <torch/types.h>

#include "torch/models/families.h"

namespace laconic::nets {
namespace {

/// Embedding, an LSTM both ways, one vector a text (the mean of its words' outputs, or each way's last), dropout,
/// linear. Padding is not read, so a text's logits do not depend on how much of it there is.
class BiLstm : public Network {
 public:
  BiLstm(Builder& builder, const InputShape& input, int classes, const ModelOptions& options)
      : Network(builder.conditions()),
        pooling_(options.pooling),
        embedding_(register_module("embedding", std::make_shared<Embedding>(builder, input.vocabulary, kEmbedding))),
        lstm_(register_module("lstm", std::make_shared<BidirectionalLstm>(builder, kEmbedding, kHidden))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(builder, options.dropout.value_or(0.5)))),
        fc_(register_module("fc", std::make_shared<Linear>(builder, 2 * kHidden, classes))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor lengths = input.ne(0).sum(1).clamp_min(1);  // a text without words is one of padding
    const torch::Tensor outputs = lstm_->forward(embedding_->forward(input), lengths);
    return fc_->forward(dropout_->forward(pooled(outputs, lengths)));
  }

 private:
  static constexpr int kEmbedding = 128;
  static constexpr int kHidden = 128;

  torch::Tensor pooled(const torch::Tensor& outputs, const torch::Tensor& lengths) const {
    if (pooling_ == Pooling::mean) return outputs.sum(1) / lengths.unsqueeze(1);  // zeros beyond the length
    const torch::Tensor last = (lengths - 1).view({-1, 1, 1}).expand({-1, 1, kHidden});
    return torch::cat({outputs.slice(2, 0, kHidden).gather(1, last).squeeze(1), outputs.select(1, 0).slice(1, kHidden)},
                      1);
  }

  Pooling pooling_;
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<BidirectionalLstm> lstm_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

NetworkPointer make_bilstm(Builder& builder, const InputShape& input, int classes, const ModelOptions& options) {
  return std::make_shared<BiLstm>(builder, input, classes, options);
}

}  // namespace laconic::nets
