// The published files, where LACONIC_DATA has them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include "data/md5.h"
#include "data_folder.h"

namespace laconic {
namespace {

/// Whether every file of the task is there, in a form that this build reads.
bool is_here(const TaskRow& row, const std::string& folder) {
  for (const TaskFile& file : row.files) {
    const std::string path = find_task_file(row, folder, file.name);
    if (path.empty() && file.needed) return false;
    if (path.ends_with(".gz") && LACONIC_ZLIB == 0) return false;
    if (path.ends_with(".xz") && LACONIC_LZMA == 0) return false;
  }
  return true;
}

std::shared_ptr<const Task> real_task(const char* name, TaskOptions options = {}) {
  if (std::getenv("LACONIC_DATA") == nullptr || !is_here(task_row(name), default_data_folder())) return nullptr;
  return make_task(name, options);
}

#define NEED(task)       \
  if ((task) == nullptr) \
  GTEST_SKIP() << "LACONIC_DATA does not have these files, or not in a form that this build reads"

TEST(RealData, FashionMnistIsWhole) {
  const auto task = real_task("fashion-mnist");
  NEED(task);
  EXPECT_EQ(task->train_size(), 60000U);
  EXPECT_EQ(task->test_size(), 10000U);
  EXPECT_EQ(task->note(), "");
  std::vector<int> counts(10);
  for (const int label : task->test_labels()) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
  std::vector<std::uint32_t> samples(1000);
  std::iota(samples.begin(), samples.end(), 0U);
  std::vector<float> images(1000 * 784);
  task->train_images(samples, 0, images);
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : images) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 784000.0, 0.0, 0.05);
  EXPECT_NEAR(std::sqrt(squares / 784000.0), 1.0, 0.05);
}

TEST(RealData, FashionMnistHasThePublishersSums) {
  NEED(real_task("fashion-mnist", {.train_samples = 1, .test_samples = 1}));
  const TaskRow& row = task_row("fashion-mnist");
  for (std::size_t i = 0; i < row.files.size(); ++i) {
    const std::string path = find_task_file(row, default_data_folder(), row.files[i].name);
    if (!path.ends_with(".gz")) continue;
    EXPECT_EQ(md5_of_file(path), row.downloads[i].md5) << path;
    EXPECT_EQ(std::filesystem::file_size(path), row.downloads[i].bytes) << path;
  }
}

TEST(RealData, CifarTenIsReadable) {
  // One training file and the test file: each takes a second or two to unpack.
  const auto task = real_task("cifar10", {.augment = false, .train_samples = 10000});
  NEED(task);
  EXPECT_EQ(task->train_size(), 10000U);
  EXPECT_EQ(task->test_size(), 10000U);
  std::vector<int> counts(10);
  for (const int label : task->test_labels()) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
  std::vector<float> images(100 * 3072);
  std::vector<double> sums(3);
  for (std::uint32_t first = 0; first < 10000; first += 100) {
    task->test_images(first, 100, images);
    for (std::size_t i = 0; i < images.size(); ++i) sums[i / 1024 % 3] += images[i];
  }
  for (const double sum : sums) EXPECT_NEAR(sum / (10000 * 1024), 0.0, 0.05);
}

TEST(RealData, AgNewsIsReadable) {
  const auto task = real_task("ag-news");
  NEED(task);
  const bool split = !task->note().empty();
  EXPECT_EQ(task->train_size(), split ? 6000U : 120000U);
  EXPECT_EQ(task->test_size(), split ? 1600U : 7600U);
  EXPECT_GT(task->input().vocabulary, 5000);
  EXPECT_LE(task->input().vocabulary, 20000);
  const auto length = static_cast<std::size_t>(task->input().length);
  std::vector<std::int64_t> tokens(task->test_size() * length);
  task->test_tokens(0, task->test_size(), tokens);
  std::size_t unknown = 0;
  std::size_t words = 0;
  for (const std::int64_t token : tokens) {
    ASSERT_TRUE(token >= 0 && token < task->input().vocabulary) << token;
    words += token != 0 ? 1 : 0;
    unknown += token == 1 ? 1 : 0;
  }
  EXPECT_LT(static_cast<double>(unknown), 0.15 * static_cast<double>(words));
}

TEST(RealData, TinyShakespeareIsWhole) {
  const auto task = real_task("tiny-shakespeare", {.context = 256});
  NEED(task);
  EXPECT_EQ(task->classes(), 65);
  EXPECT_EQ(task->train_size(), 1003854U - 256U);
  EXPECT_EQ(task->test_size(), (111540U - 1U) / 256U);
  std::vector<std::int64_t> tokens(256);
  task->train_tokens(std::vector<std::uint32_t>{0}, tokens);
  std::string text;
  for (const std::int64_t token : tokens) text += task->alphabet()[static_cast<std::size_t>(token)];
  EXPECT_TRUE(text.starts_with("First Citizen:\nBefore we proceed any further, hear me speak.")) << text;
}

}  // namespace
}  // namespace laconic

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  // A line that ctest knows, so that a run without data counts as skipped and not as passed.
  const auto* tests = ::testing::UnitTest::GetInstance();
  if (tests->skipped_test_count() == tests->test_to_run_count()) std::cout << "no published data here\n";
  return result;
}
