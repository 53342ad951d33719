#include "torch/models/draws.h"

#include "base/for_draws.h"
#include "problems/functions.h"

namespace laconic::nets {

void fill_uniform(const RandomStream& stream, double bound, View<float> out) {
  for_draws(stream, out.size(), [&](std::size_t i, std::uint32_t draw) {
    out[i] = static_cast<float>(((draw + 0.5) * 0x1p-31 - 1.0) * bound);
  });
}

void fill_normal(const RandomStream& stream, View<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(problems::normal(stream, i));
}

}  // namespace laconic::nets
