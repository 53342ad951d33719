#include "kernels/topk/kth_largest.h"

#include <array>

#include "kernels/topk/candidates.h"

namespace laconic::topk {
namespace {

struct Digit {
  unsigned shift;
  unsigned bits;
};
constexpr std::array<Digit, 3> kDigits{{{20, 11}, {10, 10}, {0, 10}}};

}  // namespace

Kth kth_largest(const std::uint32_t* keys, std::size_t n, std::size_t rank, std::uint32_t* scratch) {
  Kth kth;
  for (const auto [shift, bits] : kDigits) {
    std::array<std::uint32_t, 2048> counts{};
    const std::uint32_t mask = (1U << bits) - 1;
    for (std::size_t i = 0; i < n; ++i) ++counts[(keys[i] & kMagnitude) >> shift & mask];
    std::uint32_t digit = mask;
    for (; counts[digit] < rank; --digit) {
      rank -= counts[digit];
      kth.greater += counts[digit];
    }
    kth.key |= digit << shift;
    if (shift == 0) break;
    // Only the keys that share the digits so far can still be the one.
    std::size_t members = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t key = keys[i] & kMagnitude;
      scratch[members] = key;
      members += key >> shift == kth.key >> shift ? 1 : 0;
    }
    keys = scratch;
    n = members;
  }
  return kth;
}

}  // namespace laconic::topk
