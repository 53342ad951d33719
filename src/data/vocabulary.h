#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace laconic {

inline constexpr std::int32_t kPadding = 0;
inline constexpr std::int32_t kUnknownWord = 1;

/// The words of a text: runs of letters, digits and bytes above 127, in lower case (ASCII). An apostrophe inside a word
/// is dropped ("don't" becomes dont). Everything else separates words, including remains of markup in news ("&lt;",
/// "#36;").
std::vector<std::string> words_of(std::string_view text);

/// Numbers words by frequency, the most frequent first, equally frequent words by spelling. It is a function of the
/// texts alone.
class Vocabulary {
 public:
  /// At most `most` numbers, including the two special ones. Words that occur fewer than `least` times have no number.
  Vocabulary(std::span<const std::string> texts, int most, int least);

  int size() const { return static_cast<int>(numbers_.size()) + 2; }
  std::int32_t number(const std::string& word) const;
  /// Appends exactly `length` tokens: the text's first words, then padding.
  void encode(std::string_view text, int length, std::vector<std::int32_t>& tokens) const;

 private:
  std::unordered_map<std::string, std::int32_t> numbers_;
};

}  // namespace laconic
