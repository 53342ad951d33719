#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "torch/models/models.h"

// The layers of the models: PyTorch's operators and parameters with PyTorch's names and default distributions. They are
// not torch::nn's own modules, because the constructors of those draw from the generator that all threads share.

namespace laconic::nets {

/// Makes the tensors of one network in registration order, each from its own random stream.
class Builder {
 public:
  explicit Builder(std::uint64_t seed) : seed_(seed) {}

  torch::Tensor uniform(at::IntArrayRef sizes, double bound);
  torch::Tensor normal(at::IntArrayRef sizes);
  torch::Tensor constant(at::IntArrayRef sizes, double value);

  std::uint32_t next_dropout() { return dropouts_++; }
  const std::shared_ptr<Conditions>& conditions() const { return conditions_; }

 private:
  std::uint64_t seed_;
  std::uint32_t tensors_ = 0;
  std::uint32_t dropouts_ = 0;
  std::shared_ptr<Conditions> conditions_ = std::make_shared<Conditions>();
};

class Linear : public torch::nn::Module {
 public:
  Linear(Builder& builder, int in, int out);
  torch::Tensor forward(const torch::Tensor& input) const;

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

struct ConvolutionShape {
  int in = 0;
  int out = 0;
  int kernel = 3;  ///< odd; padded by half of it, so that stride 1 keeps the size
  int stride = 1;
  bool bias = false;  ///< false if batch norm follows
};

class Convolution : public torch::nn::Module {
 public:
  Convolution(Builder& builder, const ConvolutionShape& shape);
  torch::Tensor forward(const torch::Tensor& input) const;

 private:
  ConvolutionShape shape_;
  torch::Tensor weight_;
  torch::Tensor bias_;
};

/// Batch norm over the channels of images. In training mode it uses the batch's statistics and updates the running
/// statistics (with the unbiased variance); in evaluation mode it uses the running statistics.
class BatchNorm : public torch::nn::Module {
 public:
  BatchNorm(Builder& builder, int channels);
  torch::Tensor forward(const torch::Tensor& input) const;

 private:
  std::shared_ptr<const Conditions> conditions_;
  torch::Tensor weight_;
  torch::Tensor bias_;
  torch::Tensor running_mean_;
  torch::Tensor running_var_;
};

/// Active only in training mode. Two layers of one network never share a draw.
class Dropout : public torch::nn::Module {
 public:
  Dropout(Builder& builder, double drop);
  torch::Tensor forward(const torch::Tensor& input) const;

 private:
  std::shared_ptr<const Conditions> conditions_;
  std::uint32_t layer_;
  double drop_;
};

/// Row 0 is the padding: it is zero and gets no gradient.
class Embedding : public torch::nn::Module {
 public:
  Embedding(Builder& builder, int words, int width);
  torch::Tensor forward(const torch::Tensor& words) const;

 private:
  torch::Tensor weight_;
};

/// One bidirectional layer over [batch, length, in]. Returns [batch, length, 2·hidden], the forward half first.
class BidirectionalLstm : public torch::nn::Module {
 public:
  BidirectionalLstm(Builder& builder, int in, int hidden);
  /// `lengths`: int64, each at least 1; torch wants them on the CPU, so a GPU is waited for. Entries beyond a text's
  /// length are not read and are zero in the output.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& lengths) const;

 private:
  int hidden_;
  std::vector<torch::Tensor> weights_;
};

}  // namespace laconic::nets
