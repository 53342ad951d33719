#include "data/vocabulary.h"

#include <algorithm>
#include <utility>

namespace laconic {
namespace {

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || byte >= 128;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The length of "&name;" or "#number;" at the start of the text, or 0.
std::size_t markup_length(std::string_view text) {
  constexpr std::size_t kLongest = 8;
  if (text.empty() || (text.front() != '&' && text.front() != '#')) return 0;
  for (std::size_t i = 1; i < std::min(text.size(), kLongest); ++i) {
    if (text[i] == ';') return i > 1 ? i + 1 : 0;
    if (!is_word(text[i]) && text[i] != '#') return 0;
  }
  return 0;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_word(text[i])) {
      word.push_back(lower(text[i]));
      continue;
    }
    if (text[i] == '\'' && !word.empty() && i + 1 < text.size() && is_word(text[i + 1])) continue;
    finish();
    if (const std::size_t markup = markup_length(text.substr(i)); markup > 0) i += markup - 1;
  }
  finish();
  return words;
}

Vocabulary::Vocabulary(std::span<const std::string> texts, int most, int least) {
  std::unordered_map<std::string, int> counts;
  for (const std::string& text : texts) {
    for (std::string& word : words_of(text)) ++counts[std::move(word)];
  }
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [word, count] : counts) {
    if (count >= least) order.emplace_back(-count, word);
  }
  std::sort(order.begin(), order.end());
  const std::size_t kept = std::min(order.size(), static_cast<std::size_t>(std::max(0, most - 2)));
  for (std::size_t i = 0; i < kept; ++i) {
    numbers_.emplace(std::move(order[i].second), kUnknownWord + 1 + static_cast<std::int32_t>(i));
  }
}

std::int32_t Vocabulary::number(const std::string& word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kUnknownWord : found->second;
}

void Vocabulary::encode(std::string_view text, int length, std::vector<std::int32_t>& tokens) const {
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
    tokens.push_back(i < words.size() ? number(words[i]) : kPadding);
  }
}

}  // namespace laconic
