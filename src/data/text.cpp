#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>

#include "data/contents.h"
#include "data/data_file.h"
#include "data/play.h"
#include "laconic/error.h"

// Tasks of characters: one text, of which nine tenths are for training and the last tenth for validation. A token is a
// byte that occurs in the text, numbered in the order of bytes, so a letter beyond ASCII is several tokens. A training
// sample is a window that begins at any character. The windows of the validation follow each other without overlap, so
// each of its characters is predicted once.

namespace laconic {
namespace {

/// Random streams that are keyed by a sample have 24 bits for it.
constexpr std::uint64_t kMostCharacters = std::uint64_t{1} << 24;

struct Alphabet {
  std::string bytes;
  std::array<std::int32_t, 256> tokens{};
};

Alphabet alphabet_of(std::span<const std::uint8_t> text) {
  std::array<bool, 256> occurs{};
  for (const std::uint8_t byte : text) occurs[byte] = true;
  Alphabet alphabet;
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (!occurs[byte]) continue;
    alphabet.tokens[byte] = static_cast<std::int32_t>(alphabet.bytes.size());
    alphabet.bytes += static_cast<char>(byte);
  }
  return alphabet;
}

std::vector<std::int32_t> tokens_of(std::span<const std::uint8_t> text, const Alphabet& alphabet) {
  std::vector<std::int32_t> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(), [&](std::uint8_t byte) { return alphabet.tokens[byte]; });
  return tokens;
}

[[noreturn]] void refuse_length(const std::string& what, std::uint64_t characters) {
  throw InvalidConfig(what + " has " + std::to_string(characters) + " characters, at most " +
                      std::to_string(kMostCharacters) + " can be trained on: give a part of it");
}

/// A file of the user's own.
std::vector<std::uint8_t> read_text(const std::string& path) {
  std::error_code failed;
  const bool is_file = std::filesystem::is_regular_file(path, failed);
  if (!is_file) throw InvalidConfig("there is no text file " + path + ": name one, or leave it out");
  const std::uint64_t size = std::filesystem::file_size(path, failed);
  if (!failed && size > kMostCharacters) refuse_length(path, size);
  return read_bytes(path, kMostCharacters);
}

/// `what` names the text in messages.
TaskContents contents_of(const std::string& what, std::span<const std::uint8_t> text, const TaskOptions& options) {
  if (options.context < 1) throw InvalidConfig("context must be 1 or more, got " + std::to_string(options.context));
  const auto context = static_cast<std::size_t>(options.context);
  if (text.size() > kMostCharacters) refuse_length(what, text.size());
  const std::size_t train_size = text.size() / 10 * 9 + text.size() % 10 * 9 / 10;
  if (text.size() - train_size <= context) {
    throw InvalidConfig(what + " has " + std::to_string(text.size()) + " characters, too few: its last tenth, for " +
                        "validation, must be longer than the " + std::to_string(context) +
                        " characters that the model reads at once; give a longer text, or use another model");
  }
  const Alphabet alphabet = alphabet_of(text);
  if (alphabet.bytes.size() < 2) throw InvalidConfig(what + " consists of one character only: give another text");
  TaskContents contents;
  contents.metric = Metric::perplexity;
  contents.alphabet = alphabet.bytes;
  contents.classes = static_cast<int>(alphabet.bytes.size());
  contents.input = {.kind = InputKind::characters, .length = options.context, .vocabulary = contents.classes};
  contents.train.tokens = tokens_of(text.first(train_size), alphabet);
  contents.test.tokens = tokens_of(text.subspan(train_size), alphabet);
  const auto windows = static_cast<std::uint32_t>(train_size - context);
  contents.train.labels.resize(samples_wanted("train_samples", options.train_samples, windows));
  std::iota(contents.train.labels.begin(), contents.train.labels.end(), 0);
  const auto in_turn = static_cast<std::uint32_t>((contents.test.tokens.size() - 1) / context);
  contents.test.labels.resize(samples_wanted("test_samples", options.test_samples, in_turn));
  for (std::size_t i = 0; i < contents.test.labels.size(); ++i) {
    contents.test.labels[i] = static_cast<int>(i * context);
  }
  return contents;
}

}  // namespace

TaskContents make_text(const TaskRow& row, const TaskOptions& options) {
  if (!options.text_file.empty()) return contents_of(options.text_file, read_text(options.text_file), options);
  const std::string play = write_play(options.seed, row.train_size + row.test_size);
  return contents_of("the play", {reinterpret_cast<const std::uint8_t*>(play.data()), play.size()}, options);
}

TaskContents make_text_of_file(const TaskRow& row, const TaskOptions& options) {
  const DataFile file(row, options.data_folder, row.files.front().name, kMostCharacters);
  return contents_of(file.path(), file.bytes(), options);
}

}  // namespace laconic
