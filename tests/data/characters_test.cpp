// Tasks of characters: the text that the program writes, files of the user's own, windows and what they predict.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "data/md5.h"
#include "data/play.h"
#include "data/sampler.h"
#include "data_folder.h"

namespace laconic {
namespace {

using testing::DataFolder;

std::string md5_of(const std::string& text) {
  return md5({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// The characters that tokens stand for.
std::string spelled(const Task& task, const std::vector<std::int64_t>& tokens) {
  std::string text;
  for (const std::int64_t token : tokens) text += task.alphabet().at(static_cast<std::size_t>(token));
  return text;
}

/// A text in which every place is different: words of numbers.
std::string numbered(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) text += std::to_string(i) + (i % 10 == 9 ? "\n" : " ");
  return text;
}

TEST(Play, IsTheSameOnEveryMachine) {
  const std::string play = write_play(1, 1'000'000);
  EXPECT_EQ(play.size(), 1'000'000U);
  EXPECT_EQ(md5_of(play), "a5544b0de5de5f44001be76951c37f23");
  EXPECT_EQ(write_play(1, 5000), play.substr(0, 5000)) << "a shorter play is the beginning of a longer one";
  EXPECT_NE(write_play(2, 5000), play.substr(0, 5000));
}

// What a model is to learn must be there: brackets that close in order, verbs that agree, speakers that take turns.
TEST(Play, KeepsItsOwnRules) {
  const std::string play = write_play(1, 1'000'000);
  std::string open;
  for (const char each : play.substr(0, play.rfind(".\n\n"))) {
    if (each == '(' || each == '[') open += each;
    if (each != ')' && each != ']') continue;
    ASSERT_FALSE(open.empty());
    ASSERT_EQ(open.back(), each == ')' ? '(' : '[');
    open.pop_back();
  }
  EXPECT_EQ(open, "");
  // Where a sentence begins with its subject, the verb is the subject's.
  const auto occurrences = [&](const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = play.find(words); at != std::string::npos; at = play.find(words, at + 1)) ++count;
    return count;
  };
  using Forms = std::pair<const char*, const char*>;  // of one, of many
  std::size_t right = 0;
  for (const Forms& noun : {Forms{"king", "kings"}, {"ship", "ships"}, {"wolf", "wolves"}, {"story", "stories"}}) {
    for (const Forms& verb : {Forms{"sees", "see"}, {"fears", "fear"}, {"carries", "carry"}, {"draws", "draw"}}) {
      const auto begins = [&](const char* subject, const char* form) {
        return occurrences(std::string("The ") + subject + " " + form + " ");
      };
      right += begins(noun.first, verb.first) + begins(noun.second, verb.second);
      EXPECT_EQ(begins(noun.first, verb.second) + begins(noun.second, verb.first), 0U) << noun.first << verb.first;
    }
  }
  EXPECT_GE(right, 5U);
  // Two or three speakers in turn: nobody answers himself.
  std::string last;
  for (std::size_t at = play.find(":\n"); at != std::string::npos; at = play.find(":\n", at + 1)) {
    const std::size_t begin = play.rfind('\n', at) + 1;
    const std::string speaker = play.substr(begin, at - begin);
    ASSERT_TRUE(std::all_of(speaker.begin(), speaker.end(), [](unsigned char c) { return std::isupper(c) != 0; }));
    const std::size_t before = play.rfind('\n', begin - 3) + 1;  // the line before the empty one: a speech, or a place
    const std::string line = play.substr(before, begin - 2 - before);
    const bool opens_scene = line.starts_with("A ") || line.starts_with("The court of the king");
    ASSERT_TRUE(opens_scene || speaker != last) << "at " << at;
    last = speaker;
  }
}

TEST(Characters, ArePredictedOneByOne) {
  const DataFolder folder;
  const std::string text = numbered(400);
  folder.write("numbers.txt", text);
  const auto task = folder.make("text", {.context = 8, .text_file = folder.file("numbers.txt")});
  const std::size_t train = text.size() / 10 * 9 + text.size() % 10 * 9 / 10;
  EXPECT_EQ(task->input().kind, InputKind::characters);
  EXPECT_EQ(task->input().length, 8);
  EXPECT_EQ(task->metric(), Metric::perplexity);
  EXPECT_EQ(task->alphabet(), "\n 0123456789");
  EXPECT_EQ(task->classes(), 12);
  EXPECT_EQ(task->input().vocabulary, 12);
  EXPECT_EQ(task->targets(), 8);
  EXPECT_EQ(task->train_size(), train - 8) << "a window begins at every character but the last eight";
  EXPECT_EQ(task->test_size(), (text.size() - train - 1) / 8);

  std::vector<std::int64_t> tokens(3 * 8);
  std::vector<std::int64_t> targets(3 * 8);
  const std::vector<std::uint32_t> samples{0, 100, task->train_size() - 1};
  task->train_tokens(samples, tokens);
  task->train_targets(samples, targets);
  EXPECT_EQ(spelled(*task, tokens), text.substr(0, 8) + text.substr(100, 8) + text.substr(train - 9, 8));
  EXPECT_EQ(spelled(*task, targets), text.substr(1, 8) + text.substr(101, 8) + text.substr(train - 8, 8));

  // The validation's windows are its text in turn.
  const std::size_t all = std::size_t{task->test_size()} * 8;
  std::vector<std::int64_t> read(all);
  task->test_tokens(0, task->test_size(), read);
  EXPECT_EQ(spelled(*task, read), text.substr(train, all));
  task->test_targets(0, task->test_size(), read);
  EXPECT_EQ(spelled(*task, read), text.substr(train + 1, all));
  EXPECT_THROW(task->test_targets(task->test_size(), 1, View<std::int64_t>(read).sub(0, 8)), InvalidConfig);
  EXPECT_THROW(task->train_targets(samples, View<std::int64_t>(read).sub(0, 3)), Error);
}

TEST(Characters, OfClassifiedSamplesAreTheirLabels) {
  const auto task = make_task("digits", {.train_samples = 20, .test_samples = 10});
  EXPECT_EQ(task->metric(), Metric::accuracy);
  EXPECT_EQ(task->targets(), 1);
  EXPECT_EQ(task->alphabet(), "");
  std::vector<std::int64_t> labels(3);
  task->train_targets(std::vector<std::uint32_t>{13, 4, 0}, labels);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{3, 4, 0}));
  task->test_targets(2, 3, labels);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{2, 3, 4}));
}

TEST(Characters, AreBytesAsTheyAre) {
  const DataFolder folder;
  std::string text;
  for (int i = 0; i < 30; ++i) text += "\xc3\xa9t\xc3\xa9\r\n";
  folder.write("french.txt", text);
  const auto task = folder.make("text", {.context = 4, .text_file = folder.file("french.txt")});
  EXPECT_EQ(task->alphabet(), "\n\rt\xa9\xc3");
}

TEST(Characters, OfThePlayNeedNoFile) {
  const auto task = make_task("text", {.seed = 1});
  const TaskRow& row = task_row("text");
  EXPECT_EQ(task->train_size(), row.train_size - 64);
  EXPECT_EQ(task->test_size(), (row.test_size - 1) / 64);
  EXPECT_EQ(task->classes(), 59);
  const auto part = make_task("text", {.seed = 1, .train_samples = 500, .test_samples = 7});
  EXPECT_EQ(part->train_size(), 500U);
  EXPECT_EQ(part->test_size(), 7U);
  EXPECT_EQ(part->alphabet(), task->alphabet());
}

TEST(Characters, OfShakespeareComeFromItsFolder) {
  const DataFolder folder;
  EXPECT_SAYS(folder.complaint("tiny-shakespeare"), "laconic data get tiny-shakespeare");
  folder.write("tiny-shakespeare/input.txt", numbered(500));
  EXPECT_EQ(folder.make("tiny-shakespeare")->classes(), 12);
}

TEST(Characters, RefuseTextsThatCannotBe) {
  const DataFolder folder;
  const auto complaint = [&](const std::string& text, const char* task = "text") {
    folder.write("some.txt", text);
    return folder.complaint(task, {.context = 16, .text_file = folder.file("some.txt")});
  };
  EXPECT_SAYS(complaint(numbered(40)), "has 110 characters, too few");
  EXPECT_SAYS(complaint(std::string(400, 'a')), "one character only");
  EXPECT_SAYS(complaint(std::string((std::size_t{1} << 24) + 1, 'a')), "at most 16777216 can be trained on");
  EXPECT_SAYS(complaint(numbered(400), "digits"), "the task digits reads no text file");
  EXPECT_SAYS(folder.complaint("text", {.text_file = folder.file("none.txt")}), "there is no text file");
  EXPECT_SAYS(folder.complaint("text", {.text_file = folder.path()}), "there is no text file");
}

// Shards are of places in the text: dealt at random, or with skew 1 one part of the text per worker.
TEST(Characters, AreDealtToWorkersByTheirPlace) {
  const auto task = make_task("text", {.seed = 1, .train_samples = 1000, .test_samples = 1});
  const auto places = [&](double skew, int worker) {
    const Sampler sampler(task->train_labels(), 4, {.seed = 1, .batch = 2, .skew = skew});
    const auto shard = sampler.shard(worker);
    return std::set<std::uint32_t>(shard.begin(), shard.end());
  };
  EXPECT_EQ(*places(1.0, 0).rbegin(), 249U);
  EXPECT_EQ(*places(1.0, 3).begin(), 750U);
  EXPECT_LT(*places(0.0, 3).begin(), 100U);
  EXPECT_GT(*places(0.0, 0).rbegin(), 900U);
}

}  // namespace
}  // namespace laconic
