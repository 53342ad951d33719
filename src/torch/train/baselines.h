#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "laconic/view.h"

namespace laconic::torch_baselines {

// What a PyTorch user would write for the same work, in PyTorch's operators on the CPU. Benchmarks compare with it.
// Views are wrapped, not copied; PyTorch allocates temporaries, as in a training step.

/// Threads of PyTorch's operators in this process.
void set_threads(int threads);

/// a = gradient + residual in place; topk of |a|; gather; the selected entries are set to zero in the residual. Indices
/// are in the order of torch.topk(sorted=False), not sorted.
void topk(View<const float> gradient, View<float> residual, View<std::int64_t> indices, View<float> values);

/// Bit j of byte i is 1 if values[8·i + j] < 0. values.size() must be a multiple of 8.
void sign_pack(View<const float> values, View<std::uint8_t> bytes);

/// A byte (8 bits) or a nibble (4 bits, two per byte) of sign and level. The level is |x|/norm times the number of
/// levels, stochastically rounded.
void quantize(View<const float> values, float norm, int bits, View<std::uint8_t> packed);

/// values += the values of the fields that quantize wrote.
void dequantize_add(View<const std::uint8_t> packed, float norm, int bits, View<float> values);

/// The sign of the sum of the workers' signs. Signs are unpacked to ±1 bytes and the result is packed again. Zero
/// counts as plus.
void vote(std::span<const View<const std::uint8_t>> ballots, View<std::uint8_t> out);

float norm_l2(View<const float> values);
float norm_max(View<const float> values);
void to_f16(View<const float> values, View<std::uint16_t> out);
void to_bf16(View<const float> values, View<std::uint16_t> out);
void from_f16(View<const std::uint16_t> values, View<float> out);
void axpy(float alpha, View<const float> x, View<float> y);
void scatter_add(View<const std::int64_t> indices, View<const float> values, View<float> out);
void mean(std::span<const View<const float>> parts, View<float> out);

}  // namespace laconic::torch_baselines
