#include "data/task.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "data/contents.h"

namespace laconic {
namespace {

constexpr std::size_t kLevels = 256;

void require_kind(const TaskContents& contents, InputKind kind) {
  if (contents.input.kind == kind) return;
  throw InvalidConfig(contents.name + (kind == InputKind::image ? " has no images: its samples are texts"
                                                                : " has no texts: its samples are images"));
}

void require_sample(const TaskContents& contents, const char* set, std::uint64_t sample, std::size_t size) {
  if (sample < size) return;
  throw InvalidConfig(contents.name + ": sample must be below the " + std::to_string(size) + " " + set +
                      " samples, got " + std::to_string(sample));
}

/// How one image is changed on its way out: shifted by (down, right) pixels, then mirrored.
struct Change {
  int down = 0;
  int right = 0;
  bool mirrored = false;
};

Change draw_change(const TaskContents& contents, std::uint32_t epoch, std::uint32_t sample) {
  const RandomStream stream{.seed = contents.seed, .step = epoch, .purpose = Purpose::data_augment};
  const PhiloxBlock block = stream.block(sample);
  // Places of the crop: few enough that the bias of a product of 32 bits does not show.
  const auto places = static_cast<std::uint64_t>(2 * contents.crop_padding + 1);
  const auto below = [&](std::uint32_t bits) { return static_cast<int>(bits * places >> 32); };
  return {below(block[0]) - contents.crop_padding, below(block[1]) - contents.crop_padding,
          contents.flip && (block[2] & 1U) != 0};
}

void write_image(const InputShape& shape, const std::uint8_t* pixels, const float* levels, Change change, float* out) {
  for (int channel = 0; channel < shape.channels; ++channel, levels += kLevels) {
    for (int y = 0; y < shape.height; ++y) {
      const int from_y = y + change.down;
      const bool inside_y = from_y >= 0 && from_y < shape.height;
      for (int x = 0; x < shape.width; ++x) {
        const int from_x = (change.mirrored ? shape.width - 1 - x : x) + change.right;
        const bool inside = inside_y && from_x >= 0 && from_x < shape.width;
        *out++ = levels[inside ? pixels[(channel * shape.height + from_y) * shape.width + from_x] : 0];
      }
    }
  }
}

}  // namespace

std::size_t InputShape::size() const {
  return kind == InputKind::text
             ? static_cast<std::size_t>(length)
             : static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
}

Task::Task(TaskContents contents) : contents_(std::make_unique<const TaskContents>(std::move(contents))) {
  for (const Samples* samples : {&contents_->train, &contents_->test}) {
    const bool image = contents_->input.kind == InputKind::image;
    LACONIC_CHECK((image ? samples->pixels.size() : samples->tokens.size()) ==
                  samples->labels.size() * contents_->input.size());
  }
  LACONIC_CHECK(contents_->input.channels <= 3);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(contents_->input.channels); ++channel) {
    for (std::size_t level = 0; level < kLevels; ++level) {
      const double value = static_cast<double>(level) / 255.0;
      normalised_.push_back(static_cast<float>((value - contents_->mean[channel]) / contents_->deviation[channel]));
    }
  }
}

Task::~Task() = default;

const std::string& Task::name() const { return contents_->name; }
const std::string& Task::note() const { return contents_->note; }
InputShape Task::input() const { return contents_->input; }
int Task::classes() const { return contents_->classes; }
std::uint32_t Task::train_size() const { return static_cast<std::uint32_t>(contents_->train.labels.size()); }
std::uint32_t Task::test_size() const { return static_cast<std::uint32_t>(contents_->test.labels.size()); }
std::span<const int> Task::train_labels() const { return contents_->train.labels; }
std::span<const int> Task::test_labels() const { return contents_->test.labels; }

int Task::train_label(std::uint32_t sample) const {
  require_sample(*contents_, "training", sample, train_size());
  return contents_->train.labels[sample];
}

int Task::test_label(std::uint32_t sample) const {
  require_sample(*contents_, "test", sample, test_size());
  return contents_->test.labels[sample];
}

void Task::train_images(std::span<const std::uint32_t> samples, std::uint32_t epoch, View<float> out) const {
  const TaskContents& contents = *contents_;
  const std::size_t size = contents.input.size();
  require_kind(contents, InputKind::image);
  require_size("the images' view", out.size(), samples.size() * size);
  float* next = out.data();
  for (const std::uint32_t sample : samples) {
    require_sample(contents, "training", sample, train_size());
    const bool changes = contents.crop_padding > 0 || contents.flip;
    write_image(contents.input, contents.train.pixels.data() + sample * size, normalised_.data(),
                changes ? draw_change(contents, epoch, sample) : Change{}, next);
    next += size;
  }
}

void Task::test_images(std::uint32_t first, std::uint32_t count, View<float> out) const {
  const std::size_t size = contents_->input.size();
  require_kind(*contents_, InputKind::image);
  require_size("the images' view", out.size(), count * size);
  if (count > 0) require_sample(*contents_, "test", std::uint64_t{first} + count - 1, test_size());
  for (std::size_t i = 0; i < count; ++i) {
    write_image(contents_->input, contents_->test.pixels.data() + (first + i) * size, normalised_.data(), {},
                out.data() + i * size);
  }
}

void Task::train_tokens(std::span<const std::uint32_t> samples, View<std::int64_t> out) const {
  const std::size_t size = contents_->input.size();
  require_kind(*contents_, InputKind::text);
  require_size("the tokens' view", out.size(), samples.size() * size);
  std::int64_t* next = out.data();
  for (const std::uint32_t sample : samples) {
    require_sample(*contents_, "training", sample, train_size());
    next = std::copy_n(contents_->train.tokens.data() + sample * size, size, next);
  }
}

void Task::test_tokens(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const {
  const std::size_t size = contents_->input.size();
  require_kind(*contents_, InputKind::text);
  require_size("the tokens' view", out.size(), count * size);
  if (count > 0) require_sample(*contents_, "test", std::uint64_t{first} + count - 1, test_size());
  std::copy_n(contents_->test.tokens.data() + first * size, count * size, out.data());
}

}  // namespace laconic
