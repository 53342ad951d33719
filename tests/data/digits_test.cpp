#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/contents.h"
#include "data/glyphs.h"
#include "data/md5.h"
#include "data/task.h"
#include "laconic/error.h"

namespace laconic {
namespace {

std::shared_ptr<const Task> digits(std::uint64_t seed, int train = 200, int test = 100) {
  return make_task("digits", {.seed = seed, .train_samples = train, .test_samples = test});
}

std::vector<float> train_image(const Task& task, std::uint32_t sample, std::uint32_t epoch = 0) {
  std::vector<float> image(task.input().size());
  task.train_images(std::vector<std::uint32_t>{sample}, epoch, image);
  return image;
}

TEST(Digits, AreAnImageTaskOfTenBalancedClasses) {
  const auto task = digits(1);
  EXPECT_EQ(task->name(), "digits");
  EXPECT_EQ(task->note(), "");
  EXPECT_EQ(task->classes(), 10);
  EXPECT_EQ(task->train_size(), 200U);
  EXPECT_EQ(task->test_size(), 100U);
  EXPECT_EQ(task->input().kind, InputKind::image);
  EXPECT_EQ(task->input().size(), 28U * 28U);
  std::vector<int> counts(10);
  for (std::uint32_t i = 0; i < 200; ++i) ++counts.at(static_cast<std::size_t>(task->train_label(i)));
  EXPECT_EQ(counts, std::vector<int>(10, 20));
}

TEST(Digits, AreTheSameBytesOnEveryMachine) {
  const TaskContents contents = make_digits(task_row("digits"), {.seed = 1, .train_samples = 500, .test_samples = 100});
  EXPECT_EQ(md5(contents.train.pixels), "6bfaa0e98a6629be7e164e3d41d37c69");
  EXPECT_EQ(md5(contents.test.pixels), "e3cebf5a8ef77c035c76c937d5d66de1");
}

TEST(Digits, DifferBySeedSetAndSampleAndNotByHowManyThereAre) {
  const auto first = digits(1);
  const auto second = digits(2);
  EXPECT_NE(train_image(*first, 0), train_image(*second, 0));
  EXPECT_NE(train_image(*first, 0), train_image(*first, 10));
  EXPECT_EQ(train_image(*first, 7), train_image(*digits(1, 20, 10), 7));
  std::vector<float> test(784);
  first->test_images(0, 1, test);
  EXPECT_NE(test, train_image(*first, 0));
}

/// Ten linear functions of the pixels, by stochastic gradient descent on the cross entropy.
class LinearModel {
 public:
  explicit LinearModel(const Task& task) : task_(task), image_(kPixels), weights_(kClasses * (kPixels + 1)) {}

  void train(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (std::uint32_t i = 0; i < task_.train_size(); ++i) {
        task_.train_images(std::vector<std::uint32_t>{i}, 0, image_);
        step(task_.train_label(i), 0.01F / static_cast<float>(1 + epoch));
      }
    }
  }
  double accuracy() {
    int right = 0;
    for (std::uint32_t i = 0; i < task_.test_size(); ++i) {
      task_.test_images(i, 1, image_);
      const auto scores = forward();
      right += std::max_element(scores.begin(), scores.end()) - scores.begin() == task_.test_label(i) ? 1 : 0;
    }
    return static_cast<double>(right) / task_.test_size();
  }

 private:
  static constexpr std::size_t kPixels = 784, kClasses = 10;

  std::vector<float> forward() const {
    std::vector<float> scores(kClasses);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float* weights = weights_.data() + c * (kPixels + 1);
      for (std::size_t i = 0; i < kPixels; ++i) scores[c] += weights[i] * image_[i];
      scores[c] += weights[kPixels];
    }
    return scores;
  }
  void step(int label, float rate) {
    std::vector<float> shares = forward();
    const float most = *std::max_element(shares.begin(), shares.end());
    float sum = 0.0F;
    for (float& share : shares) sum += share = std::exp(share - most);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float off = rate * (shares[c] / sum - (static_cast<int>(c) == label ? 1.0F : 0.0F));
      float* weights = weights_.data() + c * (kPixels + 1);
      for (std::size_t i = 0; i < kPixels; ++i) weights[i] -= off * image_[i];
      weights[kPixels] -= off;
    }
  }

  const Task& task_;
  std::vector<float> image_;
  std::vector<float> weights_;
};

// Hard enough to tell methods apart: it learns something, and stays far from what a network reaches.
TEST(Digits, AreBeyondALinearModel) {
  const auto task = digits(1, 5000, 1000);
  LinearModel model(*task);
  model.train(4);
  EXPECT_GT(model.accuracy(), 0.3);
  EXPECT_LT(model.accuracy(), 0.9);
  RecordProperty("accuracy", std::to_string(model.accuracy()));
}

TEST(Digits, AreNormalisedAndNotAugmented) {
  const auto task = digits(3, 1000, 10);
  double sum = 0.0;
  double squares = 0.0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (const float value : train_image(*task, i)) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  }
  const double mean = sum / 784000.0;
  EXPECT_NEAR(mean, 0.0, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 784000.0 - mean * mean), 1.0, 0.1);
  EXPECT_EQ(train_image(*task, 5, 0), train_image(*task, 5, 1));
}

TEST(Digits, TestBatchesAreConsecutiveSamples) {
  const auto task = digits(1);
  std::vector<float> three(3 * 784);
  std::vector<float> one(784);
  task->test_images(96, 3, three);
  task->test_images(98, 1, one);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), three.begin() + 2 * 784));
  task->test_images(100, 0, View<float>(nullptr, 0));
}

TEST(Digits, RefuseWhatDoesNotExist) {
  const auto task = digits(1);
  std::vector<float> image(784);
  std::vector<std::int64_t> tokens(64);
  EXPECT_THROW(task->train_images(std::vector<std::uint32_t>{200}, 0, image), InvalidConfig);
  EXPECT_THROW(task->test_images(100, 1, image), InvalidConfig);
  EXPECT_THROW(task->test_images(0xFFFFFFFF, 1, image), InvalidConfig);
  EXPECT_THROW(task->test_images(0, 2, image), InvalidConfig);
  EXPECT_THROW(task->train_label(200), InvalidConfig);
  EXPECT_THROW(task->test_label(100), InvalidConfig);
  EXPECT_THROW(task->test_tokens(0, 1, tokens), InvalidConfig);
  EXPECT_THROW(digits(1, -1), InvalidConfig);
}

TEST(Digits, EveryGlyphOfEveryFontStaysInItsBox) {
  for (int font = 0; font < kFonts; ++font) {
    for (int digit = 0; digit < 10; ++digit) {
      const std::span<const Stroke> strokes = glyph(font, digit);
      ASSERT_FALSE(strokes.empty());
      EXPECT_NE(strokes.front().kind, Stroke::Kind::line) << "font " << font << ", digit " << digit;
      for (const Stroke& stroke : strokes) {
        const bool arc = stroke.kind == Stroke::Kind::arc;
        for (float degrees = std::min(stroke.from, stroke.to); degrees <= std::max(stroke.from, stroke.to);
             degrees += 5.0F) {
          const float x = stroke.x + (arc ? stroke.radius_x * sine_of_turns(degrees / 360.0F + 0.25F) : 0.0F);
          const float y = stroke.y + (arc ? stroke.radius_y * sine_of_turns(degrees / 360.0F) : 0.0F);
          EXPECT_TRUE(x >= -0.001F && x <= 1.001F && y >= -0.02F && y <= 1.02F)
              << "font " << font << ", digit " << digit << " goes to " << x << ", " << y;
        }
      }
    }
  }
}

TEST(SineOfTurns, IsTheSine) {
  for (int i = -2000; i <= 2000; ++i) {
    const float turns = static_cast<float>(i) / 600.0F;
    EXPECT_NEAR(sine_of_turns(turns), std::sin(2.0 * M_PI * static_cast<double>(turns)), 2e-7) << turns << " turns";
  }
}

TEST(TaskTable, NamesAreDistinctAndUnknownOnesAreToldWhatThereIs) {
  for (const TaskRow& row : task_table()) {
    EXPECT_EQ(&task_row(row.name), &row);
    EXPECT_EQ(row.files.empty(), row.downloads.empty()) << row.name;
    EXPECT_EQ(row.files.empty(), row.folders.empty()) << row.name;
  }
  const auto said = [](const char* name) {
    try {
      make_task(name, {});
    } catch (const InvalidConfig& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(said("digit"), "there is no task digit; did you mean digits?");
  EXPECT_EQ(said("xyz"),
            "there is no task xyz; there are digits, fashion-mnist, mnist, cifar10, cifar100, ag-news, text, "
            "tiny-shakespeare");
}

}  // namespace
}  // namespace laconic
