// `laconic data`, with a curl of the test's own in PATH: no test needs a network.

#include <gtest/gtest.h>

#include <cstdlib>

#include "program.h"

namespace laconic::test {
namespace {

namespace fs = std::filesystem;

class Data : public Files {
 protected:
  /// A curl that runs the given lines; $out is the file that it is to write, $url what it is to fetch.
  void write_curl(const std::string& lines) const {
    std::ofstream script(file("curl"));
    script << "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" != --output ] || out=$2; shift; done\nurl=$1\n"
           << lines << '\n';
    script.close();
    fs::permissions(file("curl"), fs::perms::owner_all);
  }
  Outcome get(const std::string& task) const {
    return laconic("data get " + task + " --to '" + file("to") + "'", "PATH='" + folder_.string() + "':\"$PATH\"");
  }
  std::vector<std::string> files_in(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(file(name))) names.push_back(entry.path().filename().string());
    return names;
  }
};

TEST_F(Data, ListSaysWhatIsHere) {
  fs::create_directories(file("ag-news"));
  std::ofstream(file("ag-news/test.csv")) << "\"1\",\"a\",\"b\"\n";
  const Outcome text = laconic("data list --data '" + folder_.string() + "'");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.text.find("missing: train.csv"), std::string::npos) << text.text;
  const Outcome outcome = laconic("data list --json", "LACONIC_DATA='" + folder_.string() + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto rows = nlohmann::json::parse(outcome.text);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[0]["name"], "digits");
  EXPECT_EQ(rows[6]["name"], "text");
  EXPECT_TRUE(rows[6]["classes"].is_null()) << "the text decides";
  EXPECT_TRUE(rows[5]["files"][0]["path"].is_null());
  EXPECT_EQ(rows[5]["files"][1]["path"], file("ag-news/test.csv"));
}

#if LACONIC_TORCH
// A run on a part of the data must not look like one on all of it.
TEST_F(Data, IsSaidToBeSplitWhereItIsTrainedOn) {
  fs::create_directories(file("ag-news"));
  std::ofstream rows(file("ag-news/test.csv"));
  for (int i = 0; i < 19; ++i) rows << 1 + i % 4 << ",some title,some text\n";
  rows.close();
  const std::string flags = " --task ag-news --workers 1 --batch 2 --data '" + folder_.string() + "'";
  for (const char* command : {"train --steps 0", "compare --methods sgd --steps 0"}) {
    const Outcome outcome = laconic(command + flags);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "Note: ag-news: train.csv is missing, so test.csv is split: its first 15 rows"))
        << outcome.text;
  }
}
#endif

TEST_F(Data, ShowDrawsDigits) {
  const Outcome outcome = laconic("data show digits --count 2");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 29);
  EXPECT_NE(outcome.text.find('@'), std::string::npos);
}

TEST_F(Data, ShowPrintsAText) {
  const Outcome outcome = laconic("data show text --count 20");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_GT(outcome.text.size(), 20U * 64U);
  EXPECT_NE(outcome.text.find(":\n"), std::string::npos) << outcome.text;
  EXPECT_TRUE(contains(laconic("data get text").text, "needs no files"));
}

TEST_F(Data, GetWithoutANetworkSaysWhereToPutWhat) {
  write_curl("echo 'no such host' >&2; exit 6");
  const Outcome outcome = get("mnist");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("curl ended with 6"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("to " + file("to/mnist/t10k-labels-idx1-ubyte.gz")), std::string::npos) << outcome.text;
  EXPECT_NE(get("cifar10").text.find(file("to/cifar-10/data_batch_5.bin")), std::string::npos);
  EXPECT_EQ(files_in("to/mnist"), std::vector<std::string>{});
}

TEST_F(Data, GetRefusesAFileWithAnotherSumAndLeavesNothing) {
  write_curl("echo 'a page that asks to sign in' >\"$out\"");
  const Outcome outcome = get("mnist");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("expected the MD5 sum f68b3c2dcbeaaa9fbdd348bbdeb94873, got"), std::string::npos)
      << outcome.text;
  EXPECT_NE(get("fashion-mnist").text.find("expected 26421880 bytes, got 28"), std::string::npos);
  EXPECT_EQ(files_in("to/mnist"), std::vector<std::string>{});
  EXPECT_EQ(files_in("to/fashion-mnist"), std::vector<std::string>{});
}

// Ctrl-C ends the program beside its curl, so nobody removes what was fetched so far.
TEST_F(Data, GetRemovesWhatAStoppedOneLeft) {
  write_curl("echo part >\"$out\"; kill -9 $PPID");
  EXPECT_NE(get("mnist").code, 0);
  ASSERT_EQ(files_in("to/mnist").size(), 1U);
  fs::create_directories(file("to/mnist/unpacked.tmp12345"));
  std::ofstream(file("to/mnist/unpacked.tmp12345/data")) << "half";
  write_curl("exit 6");
  EXPECT_EQ(get("mnist").code, 1);
  EXPECT_EQ(files_in("to/mnist"), std::vector<std::string>{});
}

TEST_F(Data, GetTellsWhatIsHereAndNotThePublishers) {
  write_curl("exit 6");
  fs::create_directories(file("to/fashion-mnist"));
  std::ofstream(file("to/fashion-mnist/t10k-labels-idx1-ubyte.gz")) << std::string(5148, 'x');
  std::ofstream(file("to/fashion-mnist/train-images-idx3-ubyte.gz")) << "of mnist";
  const Outcome outcome = get("fashion-mnist");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.text,
                       "train-images-idx3-ubyte.gz: already here, but it is not the publisher's: expected 26421880 "
                       "bytes, got 8"))
      << outcome.text;
}

TEST_F(Data, GetNamesTheTasksThereAre) {
  expect_one_line_error(laconic("data get cifar9"), 2, "there is no task cifar9; did you mean cifar10?");
  EXPECT_EQ(laconic("data get digits").code, 0);
}

TEST_F(Data, GetPutsWholeFilesInPlace) {
  const char* data = std::getenv("LACONIC_DATA");
  const std::string here = data == nullptr ? "" : std::string(data) + "/fashion-mnist";
  if (!fs::exists(here + "/train-images-idx3-ubyte.gz")) GTEST_SKIP() << "LACONIC_DATA has no fashion-mnist as .gz";
  write_curl("cp '" + here + "'/\"${url##*/}\" \"$out\"");
  const Outcome outcome = get("fashion-mnist");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("60000 training and 10000 test samples"), std::string::npos) << outcome.text;
  EXPECT_EQ(files_in("to/fashion-mnist").size(), 4U);
  write_curl("exit 1");
  EXPECT_EQ(get("fashion-mnist").code, 0) << "what is here is not fetched again";
}

}  // namespace
}  // namespace laconic::test
