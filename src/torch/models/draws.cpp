#include "torch/models/draws.h"

#include <algorithm>

#include "problems/functions.h"

namespace laconic::nets {
namespace {

/// write(i, draw32(stream, i)) for all i, each block computed once.
template <class Write>
void for_draws(const RandomStream& stream, std::size_t n, Write&& write) {
  for (std::size_t start = 0; start < n; start += 64) {
    for (std::size_t lane = 0; lane < 16 && start + lane < n; ++lane) {
      const PhiloxBlock block = stream.block(start / 4 + lane);
      for (std::size_t word = 0; word < 4; ++word) {
        const std::size_t i = start + word * 16 + lane;
        if (i < n) write(i, block[word]);
      }
    }
  }
}

}  // namespace

void fill_uniform(const RandomStream& stream, double bound, View<float> out) {
  for_draws(stream, out.size(), [&](std::size_t i, std::uint32_t draw) {
    out[i] = static_cast<float>(((draw + 0.5) * 0x1p-31 - 1.0) * bound);
  });
}

void fill_normal(const RandomStream& stream, View<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(problems::normal(stream, i));
}

}  // namespace laconic::nets
