#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "data/contents.h"
#include "data/draws.h"
#include "data/glyphs.h"

// The task `digits`: each sample is a digit of one of several stroke fonts, bent, slanted, turned, scaled, shifted,
// drawn with a pen of some width over a few stray strokes, and covered with noise. All of it is a function of (seed,
// set, sample) by + − × ÷ and square roots, which every machine rounds alike.

namespace laconic {
namespace {

constexpr int kDigitSide = 28;
constexpr int kDigitPixels = kDigitSide * kDigitSide;
constexpr std::uint32_t kMostSamples = 10'000'000;

struct Point {
  float x = 0.0F;
  float y = 0.0F;
};

/// Coverage of each pixel by ink, in [0, 1].
class Canvas {
 public:
  /// A round pen from a to b: a pixel takes the most ink that any stroke gives it.
  void draw(Point a, Point b, float radius, float ink) {
    const float reach = radius + 1.0F;
    const int left = clip(std::min(a.x, b.x) - reach);
    const int right = clip(std::max(a.x, b.x) + reach + 1.0F);
    const int top = clip(std::min(a.y, b.y) - reach);
    const int bottom = clip(std::max(a.y, b.y) + reach + 1.0F);
    const Point way{b.x - a.x, b.y - a.y};
    const float length = way.x * way.x + way.y * way.y;
    const float scale = length > 0.0F ? 1.0F / length : 0.0F;
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        const Point from{static_cast<float>(x) + 0.5F - a.x, static_cast<float>(y) + 0.5F - a.y};
        const float along = std::clamp((from.x * way.x + from.y * way.y) * scale, 0.0F, 1.0F);
        const float away_x = from.x - along * way.x;
        const float away_y = from.y - along * way.y;
        const float distance = std::sqrt(away_x * away_x + away_y * away_y);
        float& pixel = ink_[y * kDigitSide + x];
        pixel = std::max(pixel, ink * std::clamp(radius + 0.5F - distance, 0.0F, 1.0F));
      }
    }
  }

  float operator[](int pixel) const { return ink_[pixel]; }

 private:
  static int clip(float value) { return static_cast<int>(std::clamp(value, 0.0F, static_cast<float>(kDigitSide))); }

  float ink_[kDigitPixels] = {};
};

/// From the font's box to the canvas.
class Hand {
 public:
  explicit Hand(Draws& draws)
      : bend_x_(draws.between(-0.06F, 0.06F)),
        bend_y_(draws.between(-0.06F, 0.06F)),
        phase_x_(draws.between(0.0F, 1.0F)),
        phase_y_(draws.between(0.0F, 1.0F)),
        slant_(draws.between(-0.3F, 0.3F)),
        height_(draws.between(14.0F, 20.0F)),
        width_(height_ * draws.between(0.55F, 0.9F)),
        middle_{draws.between(11.0F, 17.0F), draws.between(11.0F, 17.0F)} {
    const float turns = draws.between(-0.06F, 0.06F);
    sine_ = sine_of_turns(turns);
    cosine_ = sine_of_turns(turns + 0.25F);
  }

  Point operator()(float x, float y) const {
    const float bent_x = x - 0.5F + bend_x_ * sine_of_turns(y * 0.7F + phase_x_);
    const float bent_y = y - 0.5F + bend_y_ * sine_of_turns(x * 0.7F + phase_y_);
    const float wide = (bent_x - slant_ * bent_y) * width_;
    const float high = bent_y * height_;
    return {middle_.x + cosine_ * wide - sine_ * high, middle_.y + sine_ * wide + cosine_ * high};
  }

 private:
  float bend_x_, bend_y_, phase_x_, phase_y_, slant_, height_, width_;
  Point middle_;
  float sine_ = 0.0F;
  float cosine_ = 1.0F;
};

void write_glyph(std::span<const Stroke> strokes, const Hand& hand, float radius, Canvas& canvas) {
  bool down = false;
  Point pen;
  const auto go = [&](float x, float y) {
    const Point next = hand(x, y);
    if (down) canvas.draw(pen, next, radius, 1.0F);
    pen = next;
    down = true;
  };
  for (const Stroke& stroke : strokes) {
    if (stroke.kind == Stroke::Kind::move) down = false;
    if (stroke.kind != Stroke::Kind::arc) {
      go(stroke.x, stroke.y);
      continue;
    }
    const float sweep = stroke.to - stroke.from;
    const int steps = 1 + static_cast<int>((sweep < 0.0F ? -sweep : sweep) / 25.0F);
    for (int step = 0; step <= steps; ++step) {
      const float turns = (stroke.from + sweep * static_cast<float>(step) / static_cast<float>(steps)) / 360.0F;
      go(stroke.x + stroke.radius_x * sine_of_turns(turns + 0.25F), stroke.y + stroke.radius_y * sine_of_turns(turns));
    }
  }
}

/// Short strokes that mean nothing, paler than the digit.
void scribble(Draws& draws, Canvas& canvas) {
  const int strokes = draws.below(4);
  for (int i = 0; i < strokes; ++i) {
    const Point a{draws.between(0.0F, kDigitSide), draws.between(0.0F, kDigitSide)};
    const Point b{a.x + draws.between(-6.0F, 6.0F), a.y + draws.between(-6.0F, 6.0F)};
    const float radius = draws.between(0.4F, 1.0F);
    canvas.draw(a, b, radius, draws.between(0.3F, 0.7F));
  }
}

void draw_digit(const RandomStream& stream, int digit, std::uint8_t* out) {
  Draws draws(stream);
  Canvas canvas;
  scribble(draws, canvas);
  const int font = draws.below(kFonts);
  const float radius = draws.between(0.7F, 1.7F);
  const Hand hand(draws);
  write_glyph(glyph(font, digit), hand, radius, canvas);

  const float paper = draws.between(0.0F, 60.0F);
  const float ink = draws.between(120.0F, 195.0F);
  // Four random bytes have the standard deviation 147.8 and nearly a normal law.
  const float noise = draws.between(5.0F, 32.0F) / 147.8F;
  for (int i = 0; i < kDigitPixels; ++i) {
    const std::uint32_t bits = draws.bits();
    const int sum = static_cast<int>((bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24)) - 510;
    const float value = paper + ink * canvas[i] + noise * static_cast<float>(sum);
    out[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F) + 0.5F);
  }
}

/// Samples take the digits in turn, so that every set is balanced; samplers shuffle.
Samples draw_samples(std::uint64_t seed, std::uint32_t set, std::uint32_t count) {
  Samples samples;
  samples.labels.resize(count);
  samples.pixels.resize(std::size_t{count} * kDigitPixels);
  for (std::uint32_t i = 0; i < count; ++i) {
    samples.labels[i] = static_cast<int>(i % 10);
    const RandomStream stream{.seed = seed, .step = i, .tensor = set, .purpose = Purpose::data_drawing};
    draw_digit(stream, samples.labels[i], samples.pixels.data() + std::size_t{i} * kDigitPixels);
  }
  return samples;
}

}  // namespace

TaskContents make_digits(const TaskRow& row, const TaskOptions& options) {
  const auto count = [](const char* what, int asked, std::uint32_t usual) {
    return asked == 0 ? usual : samples_wanted(what, asked, kMostSamples);
  };
  TaskContents contents;
  contents.input = {.kind = InputKind::image, .channels = 1, .height = kDigitSide, .width = kDigitSide};
  contents.train = draw_samples(options.seed, 0, count("train_samples", options.train_samples, row.train_size));
  contents.test = draw_samples(options.seed, 1, count("test_samples", options.test_samples, row.test_size));
  contents.mean[0] = 0.2;
  contents.deviation[0] = 0.2;
  return contents;
}

}  // namespace laconic
