#include "methods/def_model.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace laconic::test {

Vector random_block(const std::vector<Tensor>& tensors, double ratio, bool by_tensor, std::uint32_t step,
                    const Vector& p) {
  Vector kept(p.size(), 0.0);
  const auto keep = [&](std::uint32_t tensor, std::uint64_t offset, std::uint64_t n) {
    const RandomStream stream{42, step, kSharedRank, tensor, Purpose::block_start};
    const std::uint64_t start = draw_below(stream, 0, n);
    const auto count =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::floor(static_cast<double>(n) / ratio)));
    for (std::uint64_t i = 0; i < count; ++i) kept[offset + (start + i) % n] = p[offset + (start + i) % n];
  };
  std::uint64_t offset = 0;
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (by_tensor) keep(tensor, offset, tensors[tensor].size);
    offset += tensors[tensor].size;
  }
  if (!by_tensor) keep(0, 0, offset);
  return kept;
}

}  // namespace laconic::test
