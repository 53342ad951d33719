#include <array>

#include "kernels/vote/loops.h"

namespace laconic::reference {

void vote(Ballots ballots, Range range, const TieRule& rule, std::uint32_t* out) {
  const bool can_tie = ballots.size() % 2 == 0 && rule.ties == Ties::random;
  for (std::size_t word = range.begin; word < range.end; ++word) {
    std::array<std::size_t, 32> minus{};
    for (const auto& ballot : ballots) {
      for (std::size_t bit = 0; bit < minus.size(); ++bit) minus[bit] += ballot[word] >> bit & 1U;
    }
    const std::uint32_t coins = can_tie ? draw32(rule.stream, rule.first_word + word) : 0;
    std::uint32_t result = 0;
    for (std::size_t bit = 0; bit < minus.size(); ++bit) {
      const bool more = 2 * minus[bit] > ballots.size();
      const bool tie = 2 * minus[bit] == ballots.size();
      result |= static_cast<std::uint32_t>(more || (tie && (coins >> bit & 1U) != 0)) << bit;
    }
    out[word] = result;
  }
}

}  // namespace laconic::reference
