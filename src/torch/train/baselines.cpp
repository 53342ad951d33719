#include "torch/train/baselines.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <vector>

namespace laconic::torch_baselines {
namespace {

template <class T>
at::Tensor wrap(View<T> view, at::ScalarType type) {
  using Plain = std::remove_const_t<T>;
  return at::from_blob(const_cast<Plain*>(view.data()), {static_cast<std::int64_t>(view.size())},
                       at::TensorOptions().dtype(type));
}
at::Tensor floats(View<const float> view) { return wrap(view, at::kFloat); }
at::Tensor bytes(View<const std::uint8_t> view) { return wrap(view, at::kByte); }

/// 1, 2, 4, ... 128: what each of eight bits is worth.
at::Tensor bit_values() { return at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte); }

/// Eight booleans to a byte, the first in the lowest bit.
at::Tensor packed(const at::Tensor& bits) {
  return at::sum(bits.view({-1, 8}).to(at::kByte) * bit_values(), 1, false, at::kByte);
}

}  // namespace

void set_threads(int threads) { at::set_num_threads(threads); }

void topk(View<const float> gradient, View<float> residual, View<std::int64_t> indices, View<float> values) {
  const c10::InferenceMode no_gradients;
  at::Tensor corrected = floats(residual);
  corrected.add_(floats(gradient));
  const auto found = at::topk(corrected.abs(), static_cast<std::int64_t>(indices.size()), 0, true, false);
  const at::Tensor& chosen = std::get<1>(found);
  wrap(indices, at::kLong).copy_(chosen);
  floats(values).copy_(at::gather(corrected, 0, chosen));
  corrected.index_fill_(0, chosen, 0.0);
}

void sign_pack(View<const float> values, View<std::uint8_t> out) {
  const c10::InferenceMode no_gradients;
  bytes(out).copy_(packed(floats(values) < 0));
}

void quantize(View<const float> values, float norm, int bits, View<std::uint8_t> out) {
  const c10::InferenceMode no_gradients;
  const at::Tensor x = floats(values);
  const int sign_bit = 1 << (bits - 1);
  const at::Tensor scaled = x.abs().mul_(static_cast<float>(sign_bit - 1) / norm);
  const at::Tensor levels = scaled.add_(at::rand_like(x)).floor_().clamp_max_(sign_bit - 1).to(at::kByte);
  const at::Tensor fields = levels.bitwise_or_((x < 0).to(at::kByte).mul_(sign_bit));
  if (bits == 8) {
    bytes(out).copy_(fields);
  } else {
    const at::Tensor pairs = fields.view({-1, 2});
    bytes(out).copy_(pairs.select(1, 0).bitwise_or(pairs.select(1, 1) * 16));
  }
}

void dequantize_add(View<const std::uint8_t> fields, float norm, int bits, View<float> values) {
  const c10::InferenceMode no_gradients;
  const int sign_bit = 1 << (bits - 1);
  at::Tensor all = bytes(fields);
  if (bits != 8) all = at::stack({all.bitwise_and(15), all.bitwise_right_shift(4)}, 1).view({-1});
  const at::Tensor levels = all.bitwise_and(sign_bit - 1).to(at::kFloat);
  const at::Tensor signs = 1 - all.bitwise_and(sign_bit).to(at::kFloat).mul_(2.0F / static_cast<float>(sign_bit));
  floats(values).add_(levels.mul_(signs), norm / static_cast<float>(sign_bit - 1));
}

void vote(std::span<const View<const std::uint8_t>> ballots, View<std::uint8_t> out) {
  const c10::InferenceMode no_gradients;
  at::Tensor minus;
  for (const auto& ballot : ballots) {
    const at::Tensor bits = bytes(ballot).unsqueeze(1).bitwise_and(bit_values()).ne(0).to(at::kByte);
    minus = minus.defined() ? minus.add_(bits) : bits;
  }
  bytes(out).copy_(packed(minus.mul_(2) > static_cast<std::int64_t>(ballots.size())));
}

float norm_l2(View<const float> values) {
  const c10::InferenceMode no_gradients;
  return at::linalg_vector_norm(floats(values)).item<float>();
}

float norm_max(View<const float> values) {
  const c10::InferenceMode no_gradients;
  return floats(values).abs().max().item<float>();
}

void to_f16(View<const float> values, View<std::uint16_t> out) {
  const c10::InferenceMode no_gradients;
  wrap(out, at::kHalf).copy_(floats(values));
}

void to_bf16(View<const float> values, View<std::uint16_t> out) {
  const c10::InferenceMode no_gradients;
  wrap(out, at::kBFloat16).copy_(floats(values));
}

void from_f16(View<const std::uint16_t> values, View<float> out) {
  const c10::InferenceMode no_gradients;
  floats(out).copy_(wrap(values, at::kHalf));
}

void axpy(float alpha, View<const float> x, View<float> y) {
  const c10::InferenceMode no_gradients;
  floats(y).add_(floats(x), alpha);
}

void scatter_add(View<const std::int64_t> indices, View<const float> values, View<float> out) {
  const c10::InferenceMode no_gradients;
  floats(out).index_add_(0, wrap(indices, at::kLong), floats(values));
}

void mean(std::span<const View<const float>> parts, View<float> out) {
  const c10::InferenceMode no_gradients;
  at::Tensor sum = floats(out);
  sum.copy_(floats(parts[0]));
  for (const auto& part : parts.subspan(1)) sum.add_(floats(part));
  sum.div_(static_cast<double>(parts.size()));
}

}  // namespace laconic::torch_baselines
