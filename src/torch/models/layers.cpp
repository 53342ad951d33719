#include "torch/models/layers.h"

#include <torch/types.h>

#include <cmath>

#include "base/check.h"
#include "kernels/dropout/dropout.h"
#include "laconic/error.h"
#include "torch/models/draws.h"

namespace laconic::nets {
namespace {

View<float> entries(torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

at::Device device_of(const Place& place) { return place.device() == Device::cuda ? at::kCUDA : at::kCPU; }

double default_bound(std::int64_t fan_in) { return 1.0 / std::sqrt(static_cast<double>(fan_in)); }

}  // namespace

void Conditions::set_draws(DrawKey key) {
  draws_ = std::move(key);
  samples_ = torch::Tensor();
  if (draws_.samples.empty()) return;
  const torch::Tensor here = torch::from_blob(draws_.samples.data(), {static_cast<std::int64_t>(draws_.samples.size())},
                                              torch::kInt);
  samples_ = here.to(device_of(*place_), torch::kInt, /*non_blocking=*/false, /*copy=*/true);
}

torch::Tensor Conditions::samples(std::int64_t rows) const {
  if (!samples_.defined()) return torch::arange(rows, torch::device(device_of(*place_)).dtype(torch::kInt));
  require_size("the draws' samples", draws_.samples.size(), static_cast<std::size_t>(rows));
  return samples_;
}

torch::Tensor Builder::uniform(at::IntArrayRef sizes, double bound) {
  torch::Tensor tensor = torch::empty(sizes);
  fill_uniform({.seed = seed_, .tensor = tensors_++, .purpose = Purpose::model_start}, bound, entries(tensor));
  return tensor;
}

torch::Tensor Builder::normal(at::IntArrayRef sizes) {
  torch::Tensor tensor = torch::empty(sizes);
  fill_normal({.seed = seed_, .tensor = tensors_++, .purpose = Purpose::model_start}, entries(tensor));
  return tensor;
}

torch::Tensor Builder::constant(at::IntArrayRef sizes, double value) {
  ++tensors_;
  return torch::full(sizes, value);
}

Linear::Linear(Builder& builder, int in, int out)
    : weight_(register_parameter("weight", builder.uniform({out, in}, default_bound(in)))),
      bias_(register_parameter("bias", builder.uniform({out}, default_bound(in)))) {}

torch::Tensor Linear::forward(const torch::Tensor& input) const { return torch::linear(input, weight_, bias_); }

Convolution::Convolution(Builder& builder, const ConvolutionShape& shape) : shape_(shape) {
  const double bound = default_bound(std::int64_t{shape.in} * shape.kernel * shape.kernel);
  weight_ = register_parameter("weight", builder.uniform({shape.out, shape.in, shape.kernel, shape.kernel}, bound));
  if (shape.bias) bias_ = register_parameter("bias", builder.uniform({shape.out}, bound));
}

torch::Tensor Convolution::forward(const torch::Tensor& input) const {
  return torch::conv2d(input, weight_, bias_, shape_.stride, shape_.kernel / 2);
}

BatchNorm::BatchNorm(Builder& builder, int channels)
    : conditions_(builder.conditions()),
      weight_(register_parameter("weight", builder.constant({channels}, 1.0))),
      bias_(register_parameter("bias", builder.constant({channels}, 0.0))),
      running_mean_(register_buffer("running_mean", torch::zeros({channels}))),
      running_var_(register_buffer("running_var", torch::ones({channels}))) {}

torch::Tensor BatchNorm::forward(const torch::Tensor& input) const {
  // Their variance without bias would be 0/0, and every later test with it.
  if (is_training() && input.numel() == input.size(1)) {
    throw InvalidConfig(
        "batch must be 2 or more, got 1: the images shrink to one pixel before a batch norm, which then has only one "
        "value per channel");
  }
  constexpr double kEpsilon = 1e-5;
  constexpr bool kCudnn = false;
  return torch::batch_norm(input, weight_, bias_, running_mean_, running_var_, is_training(),
                           conditions_->norm_momentum, kEpsilon, kCudnn);
}

Dropout::Dropout(Builder& builder, double drop)
    : conditions_(builder.conditions()), layer_(builder.next_dropout()), drop_(drop) {}

torch::Tensor Dropout::forward(const torch::Tensor& input) const {
  if (!is_training() || drop_ == 0.0) return input;
  torch::Tensor mask = torch::empty(input.sizes(), torch::device(input.device()).dtype(torch::kFloat));
  const torch::Tensor samples = conditions_->samples(input.size(0));
  Place& place = conditions_->place();
  const DrawKey& draws = conditions_->draws();
  const RandomStream stream{.seed = draws.seed, .step = draws.epoch, .tensor = layer_, .purpose = Purpose::dropout};
  const Device device = input.is_cuda() ? Device::cuda : Device::cpu;
  const auto* first = reinterpret_cast<const std::uint32_t*>(samples.const_data_ptr<std::int32_t>());
  dropout_mask(place, stream, {first, static_cast<std::size_t>(samples.numel()), place.device()}, drop_,
               {mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel()), device});
  return input * mask.to(input.scalar_type());
}

Embedding::Embedding(Builder& builder, int words, int width) {
  torch::Tensor weight = builder.normal({words, width});
  weight[0].zero_();
  weight_ = register_parameter("weight", weight);
}

torch::Tensor Embedding::forward(const torch::Tensor& words) const {
  constexpr std::int64_t kPadding = 0;
  return torch::embedding(weight_, words, kPadding);
}

BidirectionalLstm::BidirectionalLstm(Builder& builder, int in, int hidden) : hidden_(hidden) {
  const double bound = default_bound(hidden);
  const int gates = 4 * hidden;
  for (const std::string way : {"", "_reverse"}) {
    weights_.push_back(register_parameter("weight_ih_l0" + way, builder.uniform({gates, in}, bound)));
    weights_.push_back(register_parameter("weight_hh_l0" + way, builder.uniform({gates, hidden}, bound)));
    weights_.push_back(register_parameter("bias_ih_l0" + way, builder.uniform({gates}, bound)));
    weights_.push_back(register_parameter("bias_hh_l0" + way, builder.uniform({gates}, bound)));
  }
}

torch::Tensor BidirectionalLstm::forward(const torch::Tensor& input, const torch::Tensor& lengths) const {
  constexpr bool kBiases = true, kBothWays = true, kBatchFirst = true;
  constexpr std::int64_t kLayers = 1;
  constexpr double kNoDropout = 0.0;
  // The packed form wants texts from the longest to the shortest.
  const auto [sorted, by_length] = lengths.cpu().sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  const torch::Tensor order = by_length.to(input.device());
  const auto [data, batch_sizes] = torch::_pack_padded_sequence(input.index_select(0, order), sorted, kBatchFirst);
  const torch::Tensor start = torch::zeros({2, input.size(0), hidden_}, input.options());
  const auto states =
      torch::lstm(data, batch_sizes, {start, start}, weights_, kBiases, kLayers, kNoDropout, is_training(), kBothWays);
  const auto padded = torch::_pad_packed_sequence(std::get<0>(states), batch_sizes, kBatchFirst, 0.0, input.size(1));
  return std::get<0>(padded).index_select(0, order.argsort());
}

}  // namespace laconic::nets
