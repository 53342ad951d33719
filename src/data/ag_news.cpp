#include <algorithm>
#include <iterator>
#include <utility>

#include "data/contents.h"
#include "data/csv.h"
#include "data/vocabulary.h"
#include "laconic/error.h"

// Rows "class","title","description"; a sample is title and description. The vocabulary is made of the training rows
// that are used, so that nothing of the test rows is known beforehand.

namespace laconic {
namespace {

constexpr int kLength = 64;  // thirty-nine texts of forty are shorter
constexpr int kMostWords = 20000;
constexpr int kLeastOften = 2;
constexpr std::size_t kFields = 3;
constexpr std::uint64_t kMost = std::uint64_t{256} << 20;
/// Without train.csv so many rows of test.csv are for testing, the last ones, and the others for training.
constexpr std::size_t kHeldBack = 1600;

struct Rows {
  std::vector<int> labels;
  std::vector<std::string> texts;

  void keep(std::uint32_t count) {
    labels.resize(count);
    texts.resize(count);
  }
};

Rows read_rows(const TaskRow& row, const TaskOptions& options, const char* name, FirstBytes& seen) {
  const DataFile file(row, options.data_folder, name, kMost);
  CsvReader reader(file);
  Rows rows;
  std::vector<std::string> fields;
  while (reader.next(fields)) {
    if (fields.size() != kFields) {
      file.wrong(reader.row_offset(), "a row of 3 fields (class, title, description)", std::to_string(fields.size()));
    }
    const std::string& label = fields[0];
    if (label.size() != 1 || label[0] < '1' || label[0] > '0' + row.classes) {
      file.wrong(reader.row_offset(), "a class from 1 to " + std::to_string(row.classes),
                 '"' + label.substr(0, 20) + '"');
    }
    rows.labels.push_back(label[0] - '1');
    rows.texts.push_back(fields[1] + ' ' + fields[2]);
  }
  if (rows.labels.empty()) file.wrong(0, "a row of 3 fields (class, title, description)", "the end");
  seen.add(file);
  return rows;
}

/// Takes the last `count` rows away.
Rows take_last(Rows& rows, std::size_t count) {
  const auto first = static_cast<std::ptrdiff_t>(rows.labels.size() - count);
  Rows last;
  last.labels.assign(rows.labels.begin() + first, rows.labels.end());
  last.texts.assign(std::make_move_iterator(rows.texts.begin() + first), std::make_move_iterator(rows.texts.end()));
  rows.keep(static_cast<std::uint32_t>(first));
  return last;
}

Samples encode(const Rows& rows, const Vocabulary& vocabulary) {
  Samples samples;
  samples.labels = rows.labels;
  samples.tokens.reserve(rows.texts.size() * kLength);
  for (const std::string& text : rows.texts) vocabulary.encode(text, kLength, samples.tokens);
  return samples;
}

}  // namespace

TaskContents make_ag_news(const TaskRow& row, const TaskOptions& options) {
  TaskContents contents;
  Rows train;
  FirstBytes seen;
  Rows test = read_rows(row, options, "test.csv", seen);
  if (!find_task_file(row, options.data_folder, "train.csv").empty()) {
    train = read_rows(row, options, "train.csv", seen);
    contents.note = note_on_sizes(row, train.labels.size(), test.labels.size());
  } else {
    train = std::exchange(test, {});
    // A small file is split in the same proportion.
    const std::size_t held_back = train.labels.size() * kHeldBack / row.test_size;
    if (held_back == 0) {
      throw Error(std::string(row.name) + ": train.csv is missing, and test.csv has " +
                  std::to_string(train.labels.size()) +
                  " rows, too few to split: expected 5 or more; laconic data get " + row.name + " --to " +
                  options.data_folder + " fetches both");
    }
    test = take_last(train, held_back);
    contents.note = "ag-news: train.csv is missing, so test.csv is split: its first " +
                    std::to_string(train.labels.size()) + " rows to train on, its last " +
                    std::to_string(test.labels.size()) + " to test on";
  }
  const auto available = [](const Rows& rows) { return static_cast<std::uint32_t>(rows.labels.size()); };
  train.keep(samples_wanted("train_samples", options.train_samples, available(train)));
  test.keep(samples_wanted("test_samples", options.test_samples, available(test)));

  const Vocabulary vocabulary(train.texts, kMostWords, kLeastOften);
  contents.input = {.kind = InputKind::text, .length = kLength, .vocabulary = vocabulary.size()};
  contents.train = encode(train, vocabulary);
  contents.test = encode(test, vocabulary);
  return contents;
}

}  // namespace laconic
