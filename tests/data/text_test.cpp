#include <gtest/gtest.h>

#include "data/vocabulary.h"
#include "data_folder.h"

namespace laconic {
namespace {

using testing::DataFolder;
using Words = std::vector<std::string>;

TEST(WordsOf, AreLowerCaseRunsWithoutMarkup) {
  EXPECT_EQ(words_of("Oil-price UP 3.5%, says OPEC"), (Words{"oil", "price", "up", "3", "5", "says", "opec"}));
  EXPECT_EQ(words_of("it's the firms' rock'n'roll"), (Words{"its", "the", "firms", "rocknroll"}));
  EXPECT_EQ(words_of("Intel &lt;INTC.O&gt; paid #36;10 to AT&T; R&D #"),
            (Words{"intel", "intc", "o", "paid", "10", "to", "at", "r", "d"}));
  EXPECT_EQ(words_of("second\\team Café"), (Words{"second", "team", "caf\xc3\xa9"}));
  EXPECT_EQ(words_of(""), Words{});
}

TEST(VocabularyNumbers, CountFromTheMostFrequentWord) {
  const std::vector<std::string> texts{"b a c a", "a b d b", "e e"};
  const Vocabulary all(texts, 100, 1);
  EXPECT_EQ(all.size(), 7);
  EXPECT_EQ(all.number("a"), 2);  // as often as b, and before it
  EXPECT_EQ(all.number("b"), 3);
  EXPECT_EQ(all.number("e"), 4);
  EXPECT_EQ(all.number("c"), 5);
  EXPECT_EQ(all.number("z"), kUnknownWord);
  EXPECT_EQ(Vocabulary(texts, 100, 2).size(), 5);
  const Vocabulary small(texts, 3, 1);
  EXPECT_EQ(small.size(), 3);
  std::vector<std::int32_t> tokens;
  small.encode("A b a", 5, tokens);
  small.encode("a a a", 2, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 1, 2, 0, 0, 2, 2}));
}

const char* const kRows =
    "\"3\",\"Oil up\",\"Oil, they said, \"\"went\"\" up\"\n"
    "\"1\",\"Vote\",\"A vote\nover two lines\"\r\n"
    "2,Goal,A late goal\n"
    "\"4\",\"Chip\",\"\"";

TEST(AgNews, ReadsRowsAndMakesItsVocabularyFromTheTrainingRows) {
  const DataFolder folder;
  folder.write("ag-news/train.csv", kRows);
  folder.write("ag-news/test.csv", std::string("\"2\",\"Oil\",\"unheard up\"\n"));
  const auto task = folder.make("ag-news");
  // Cut where a row ends, a file looks whole.
  EXPECT_EQ(task->note(), "ag-news: the files hold 4 training and 1 test samples, the publisher's 120000 and 7600");
  EXPECT_EQ(task->classes(), 4);
  EXPECT_EQ(std::vector<int>(task->train_labels().begin(), task->train_labels().end()), (std::vector<int>{2, 0, 1, 3}));
  EXPECT_EQ(task->input().kind, InputKind::text);
  EXPECT_EQ(task->input().vocabulary, 7);  // a, goal, oil, up, vote occur twice
  const auto length = static_cast<std::size_t>(task->input().length);
  std::vector<std::int64_t> tokens(2 * length);
  task->train_tokens(std::vector<std::uint32_t>{0, 3}, tokens);
  EXPECT_EQ(std::vector<std::int64_t>(tokens.begin(), tokens.begin() + 8),
            (std::vector<std::int64_t>{4, 5, 4, 1, 1, 1, 5, 0}));
  EXPECT_EQ(tokens[length], 1);
  EXPECT_EQ(tokens[length + 1], 0);
  tokens.resize(length);
  task->test_tokens(0, 1, tokens);
  EXPECT_EQ(std::vector<std::int64_t>(tokens.begin(), tokens.begin() + 4), (std::vector<std::int64_t>{4, 1, 5, 0}));
  EXPECT_EQ(task->test_label(0), 1);
  std::vector<float> image(length);
  EXPECT_THROW(task->test_images(0, 1, image), InvalidConfig);
}

TEST(AgNews, SplitsTheTestRowsWithoutTrainingRowsAndSaysSo) {
  const DataFolder folder;
  std::string rows;
  for (int i = 0; i < 76; ++i) rows.append(1, static_cast<char>('1' + i % 4)).append(",title,text\n");
  folder.write("ag-news/test.csv", rows);
  const auto task = folder.make("ag-news");
  EXPECT_EQ(task->train_size(), 60U);
  EXPECT_EQ(task->test_size(), 16U);
  EXPECT_SAYS(task->note(), "train.csv is missing, so test.csv is split: its first 60 rows");
  folder.write("ag-news/test.csv", rows.substr(0, rows.size() / 19));
  EXPECT_SAYS(folder.complaint("ag-news"), "test.csv has 4 rows, too few to split: expected 5 or more");
}

TEST(AgNews, RefusesTheTestRowsForTheTrainingRows) {
  const DataFolder folder;
  for (const char* name : {"train.csv", "test.csv"}) folder.write(std::string("ag-news/") + name, kRows);
  EXPECT_SAYS(folder.complaint("ag-news"), folder.file("ag-news/train.csv") +
                                               ", offset 0: expected other contents than those of " +
                                               folder.file("ag-news/test.csv"));
}

TEST(AgNews, DamageIsToldByFileOffsetAndExpectation) {
  const DataFolder folder;
  const auto says_of = [&](const std::string& rows) {
    folder.write("ag-news/test.csv", rows);
    const std::string said = folder.complaint("ag-news");
    EXPECT_SAYS(said, folder.file("ag-news/test.csv"));
    return said;
  };
  const std::string good = "\"1\",\"a\",\"b\"\n";
  EXPECT_SAYS(says_of(good + "\"1\",\"a\",\"cut"), "offset 24: expected a quote that closes the one at offset 20");
  EXPECT_SAYS(says_of(good + "\"1\",\"a\"\n"),
              "offset 12: expected a row of 3 fields (class, title, description), found 2");
  EXPECT_SAYS(says_of(good + "\"5\",\"a\",\"b\"\n"), "offset 12: expected a class from 1 to 4, found \"5\"");
  EXPECT_SAYS(says_of(good + "\"0\",\"a\",\"b\"\n"), "expected a class from 1 to 4");
  EXPECT_SAYS(says_of(good + "\"1\"x,\"a\",\"b\"\n"),
              "offset 15: expected a comma or the end of the line, found \"x\"");
  EXPECT_SAYS(says_of(""), "offset 0: expected a row");
}

}  // namespace
}  // namespace laconic
