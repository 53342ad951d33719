#include "data/task.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "data/contents.h"

namespace laconic {
namespace {

constexpr std::size_t kLevels = 256;

void require_images(const TaskContents& contents) {
  if (contents.input.kind == InputKind::image) return;
  throw InvalidConfig(contents.name + " has no images: its samples are texts");
}

void require_tokens(const TaskContents& contents) {
  if (contents.input.kind != InputKind::image) return;
  throw InvalidConfig(contents.name + " has no texts: its samples are images");
}

/// Whether the samples' memory is what their labels and the shape of the input say.
bool is_whole(const Samples& samples, const InputShape& input) {
  const std::size_t count = samples.labels.size();
  const auto length = static_cast<std::size_t>(input.length);
  switch (input.kind) {
    case InputKind::image:
      return samples.pixels.size() == count * input.size();
    case InputKind::text:
      return samples.tokens.size() == count * input.size();
    case InputKind::characters:
      return count > 0 && static_cast<std::size_t>(samples.labels.back()) + length < samples.tokens.size();
  }
  return false;
}

/// The first token of a sample.
const std::int32_t* tokens_of(const Samples& samples, const InputShape& input, std::size_t sample) {
  const bool window = input.kind == InputKind::characters;
  return samples.tokens.data() + (window ? static_cast<std::size_t>(samples.labels[sample]) : sample * input.size());
}

/// What is to be predicted for a sample. Returns where the next one's belongs.
std::int64_t* write_targets(const Samples& samples, const InputShape& input, std::size_t sample, std::int64_t* out) {
  if (input.kind == InputKind::characters) return std::copy_n(tokens_of(samples, input, sample) + 1, input.length, out);
  *out = samples.labels[sample];
  return out + 1;
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
  if (kind != InputKind::image) return static_cast<std::size_t>(length);
  return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
}

Task::Task(TaskContents contents) : contents_(std::make_unique<const TaskContents>(std::move(contents))) {
  LACONIC_CHECK(is_whole(contents_->train, contents_->input));
  LACONIC_CHECK(is_whole(contents_->test, contents_->input));
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
Metric Task::metric() const { return contents_->metric; }
const std::string& Task::alphabet() const { return contents_->alphabet; }
int Task::targets() const { return contents_->input.kind == InputKind::characters ? contents_->input.length : 1; }
std::uint32_t Task::train_size() const { return static_cast<std::uint32_t>(contents_->train.labels.size()); }
std::uint32_t Task::test_size() const { return static_cast<std::uint32_t>(contents_->test.labels.size()); }
std::span<const int> Task::train_labels() const { return contents_->train.labels; }
std::span<const int> Task::test_labels() const { return contents_->test.labels; }

void Task::require_sample(const char* set, std::uint64_t sample, std::size_t size) const {
  if (sample < size) return;
  throw InvalidConfig(contents_->name + ": sample must be below the " + std::to_string(size) + " " + set +
                      " samples, got " + std::to_string(sample));
}

int Task::train_label(std::uint32_t sample) const {
  require_sample("training", sample, train_size());
  return contents_->train.labels[sample];
}

int Task::test_label(std::uint32_t sample) const {
  require_sample("test", sample, test_size());
  return contents_->test.labels[sample];
}

void Task::train_images(std::span<const std::uint32_t> samples, std::uint32_t epoch, View<float> out) const {
  const TaskContents& contents = *contents_;
  const std::size_t size = contents.input.size();
  require_images(contents);
  require_size("the images' view", out.size(), samples.size() * size);
  float* next = out.data();
  for (const std::uint32_t sample : samples) {
    require_sample("training", sample, train_size());
    const bool changes = contents.crop_padding > 0 || contents.flip;
    write_image(contents.input, contents.train.pixels.data() + sample * size, normalised_.data(),
                changes ? draw_change(contents, epoch, sample) : Change{}, next);
    next += size;
  }
}

void Task::test_images(std::uint32_t first, std::uint32_t count, View<float> out) const {
  const std::size_t size = contents_->input.size();
  require_images(*contents_);
  require_size("the images' view", out.size(), count * size);
  if (count > 0) require_sample("test", std::uint64_t{first} + count - 1, test_size());
  for (std::size_t i = 0; i < count; ++i) {
    write_image(contents_->input, contents_->test.pixels.data() + (first + i) * size, normalised_.data(), {},
                out.data() + i * size);
  }
}

void Task::train_tokens(std::span<const std::uint32_t> samples, View<std::int64_t> out) const {
  const std::size_t size = contents_->input.size();
  require_tokens(*contents_);
  require_size("the tokens' view", out.size(), samples.size() * size);
  std::int64_t* next = out.data();
  for (const std::uint32_t sample : samples) {
    require_sample("training", sample, train_size());
    next = std::copy_n(tokens_of(contents_->train, contents_->input, sample), size, next);
  }
}

void Task::test_tokens(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const {
  const std::size_t size = contents_->input.size();
  require_tokens(*contents_);
  require_size("the tokens' view", out.size(), count * size);
  if (count > 0) require_sample("test", std::uint64_t{first} + count - 1, test_size());
  std::int64_t* next = out.data();
  for (std::size_t i = 0; i < count; ++i) {
    next = std::copy_n(tokens_of(contents_->test, contents_->input, first + i), size, next);
  }
}

void Task::train_targets(std::span<const std::uint32_t> samples, View<std::int64_t> out) const {
  require_size("the targets' view", out.size(), samples.size() * static_cast<std::size_t>(targets()));
  std::int64_t* next = out.data();
  for (const std::uint32_t sample : samples) {
    require_sample("training", sample, train_size());
    next = write_targets(contents_->train, contents_->input, sample, next);
  }
}

void Task::test_targets(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const {
  require_size("the targets' view", out.size(), count * static_cast<std::size_t>(targets()));
  if (count > 0) require_sample("test", std::uint64_t{first} + count - 1, test_size());
  std::int64_t* next = out.data();
  for (std::size_t i = 0; i < count; ++i) next = write_targets(contents_->test, contents_->input, first + i, next);
}

}  // namespace laconic
