#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "torch/models/draws.h"
#include "torch/models/models.h"

// Inputs and a loss for the networks, the same everywhere.

namespace laconic::test {

inline InputShape images(int channels, int side) {
  return {.kind = InputKind::image, .channels = channels, .height = side, .width = side};
}

inline InputShape texts(int length, int vocabulary) {
  return {.kind = InputKind::text, .length = length, .vocabulary = vocabulary};
}

inline InputShape characters(int length, int vocabulary) {
  return {.kind = InputKind::characters, .length = length, .vocabulary = vocabulary};
}

/// A batch of normal pixels, or of texts whose lengths differ.
inline torch::Tensor some_input(const InputShape& shape, int batch, std::uint64_t seed = 1) {
  const RandomStream stream{.seed = seed};
  if (shape.kind == InputKind::image) {
    torch::Tensor values = torch::empty({batch, shape.channels, shape.height, shape.width});
    nets::fill_normal(stream, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    return values;
  }
  torch::Tensor words = torch::zeros({batch, shape.length}, torch::kLong);
  for (int text = 0; text < batch; ++text) {
    for (int word = 0; word < shape.length - text % shape.length; ++word) {
      const auto i = static_cast<std::uint64_t>(text * shape.length + word);
      words[text][word] = 1 + static_cast<std::int64_t>(draw_below(stream, i, shape.vocabulary - 1));
    }
  }
  return words;
}

/// Cross entropy of the classes 0, 1, 2, 0, 1, …
inline torch::Tensor loss_of(nets::Network& network, const torch::Tensor& input) {
  const torch::Tensor logits = network.forward(input);
  const torch::Tensor labels = torch::arange(logits.size(0), torch::kLong).remainder(3);
  return torch::cross_entropy_loss(logits, labels);
}

/// All parameters, one after the other.
inline torch::Tensor flattened(const std::vector<torch::Tensor>& parts) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& part : parts) flat.push_back(part.detach().flatten());
  return flat.empty() ? torch::empty({0}) : torch::cat(flat).clone();
}

inline torch::Tensor gradients_of(const nets::Network& network) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& parameter : network.parameters()) parts.push_back(parameter.grad());
  return flattened(parts);
}

}  // namespace laconic::test
