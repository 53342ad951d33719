#pragma once

#include <cstdint>

namespace laconic {

/// A rule for one word of a payload's body, or for several neighbouring words.
struct WordCheck {
  enum class Rule : std::uint32_t {
    zero_bytes,  ///< the bits `zeros` are zero; a fault names the first byte
    zero_bits,   ///< the same; a fault names the word
    norm,        ///< a float32 that is finite and not negative
  };
  std::uint64_t offset;  ///< in the payload, a multiple of 4
  std::uint32_t zeros;
  Rule rule;
  std::uint64_t words = 1;  ///< how many, each under the same rule

  constexpr bool allows(std::uint32_t word) const {
    if (rule != Rule::norm) return (word & zeros) == 0;
    return word < 0x7F80'0000U || word == 0x8000'0000U;  // -0 is not negative
  }
};

/// The zeros behind a section of `bits` bits at `offset`, up to the end of its last word. A full word has none.
constexpr WordCheck filling_of(std::uint64_t offset, std::uint64_t bits,
                               WordCheck::Rule rule = WordCheck::Rule::zero_bytes) {
  const std::uint64_t used = bits % 32;
  return {offset + bits / 32 * 4, used == 0 ? 0U : ~std::uint32_t{0} << used, rule};
}

constexpr WordCheck norms_at(std::uint64_t offset, std::uint64_t count) {
  return {offset, 0, WordCheck::Rule::norm, count};
}

/// Whether there is anything to check.
constexpr bool has_rule(const WordCheck& check) {
  return check.rule == WordCheck::Rule::norm ? check.words > 0 : check.zeros != 0;
}

}  // namespace laconic
