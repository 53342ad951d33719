#include "data/glyphs.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace laconic {
namespace {

constexpr Stroke move(float x, float y) { return {Stroke::Kind::move, x, y}; }
constexpr Stroke line(float x, float y) { return {Stroke::Kind::line, x, y}; }
constexpr Stroke arc(float x, float y, float radius_x, float radius_y, float from, float to) {
  return {Stroke::Kind::arc, x, y, radius_x, radius_y, from, to};
}

using Glyph = std::vector<Stroke>;
using Font = std::array<Glyph, 10>;

// clang-format off
const std::array<Font, kFonts>& fonts() {
  static const std::array<Font, kFonts> all{{
      {{  // round, as at school
          {arc(.5F, .5F, .32F, .5F, 0, 360)},
          {move(.33F, .22F), line(.55F, 0), line(.55F, 1)},
          {arc(.5F, .28F, .32F, .28F, 190, 400), line(.16F, 1), line(.86F, 1)},
          {arc(.45F, .26F, .3F, .26F, 200, 450), arc(.45F, .76F, .34F, .24F, 270, 520)},
          {move(.66F, 1), line(.66F, 0), line(.12F, .68F), line(.9F, .68F)},
          {move(.8F, 0), line(.28F, 0), line(.22F, .46F), arc(.48F, .68F, .34F, .32F, 225, 500)},
          {arc(.72F, .68F, .52F, .68F, 270, 180), arc(.5F, .69F, .3F, .31F, 180, -180)},
          {move(.15F, 0), line(.85F, 0), line(.4F, 1)},
          {arc(.5F, .25F, .26F, .25F, 90, 450), arc(.5F, .75F, .32F, .25F, 270, 630)},
          {arc(.5F, .31F, .3F, .31F, 0, 360), arc(.28F, .31F, .52F, .69F, 0, 90)},
      }},
      {{  // square, as on a display
          {move(.2F, .12F), line(.35F, 0), line(.65F, 0), line(.8F, .12F), line(.8F, .88F), line(.65F, 1), line(.35F, 1),
           line(.2F, .88F), line(.2F, .12F)},
          {move(.3F, .2F), line(.5F, 0), line(.5F, 1), move(.25F, 1), line(.75F, 1)},
          {move(.2F, 0), line(.8F, 0), line(.8F, .5F), line(.2F, .5F), line(.2F, 1), line(.8F, 1)},
          {move(.2F, 0), line(.8F, 0), line(.46F, .42F), line(.8F, .6F), line(.8F, .85F), line(.65F, 1), line(.2F, 1)},
          {move(.25F, 0), line(.2F, .55F), line(.85F, .55F), move(.68F, .15F), line(.68F, 1)},
          {move(.8F, 0), line(.2F, 0), line(.2F, .45F), line(.8F, .45F), line(.8F, 1), line(.2F, 1)},
          {move(.8F, 0), line(.2F, 0), line(.2F, 1), line(.8F, 1), line(.8F, .5F), line(.2F, .5F)},
          {move(.15F, 0), line(.85F, 0), line(.45F, 1), move(.32F, .5F), line(.8F, .5F)},
          {move(.2F, 0), line(.8F, 0), line(.8F, 1), line(.2F, 1), line(.2F, 0), move(.2F, .5F), line(.8F, .5F)},
          {move(.8F, .5F), line(.2F, .5F), line(.2F, 0), line(.8F, 0), line(.8F, 1), line(.2F, 1)},
      }},
      {{  // quick handwriting
          {arc(.5F, .5F, .25F, .5F, 300, 690)},
          {move(.5F, 0), line(.5F, 1)},
          {arc(.48F, .26F, .28F, .26F, 170, 400), line(.2F, .95F), line(.5F, .88F), line(.86F, 1)},
          {arc(.45F, .25F, .28F, .25F, 190, 430), arc(.45F, .74F, .33F, .26F, 290, 545)},
          {move(.32F, 0), line(.14F, .58F), line(.88F, .6F), move(.65F, .3F), line(.56F, 1)},
          {arc(.52F, .25F, .28F, .25F, 330, 100), arc(.46F, .75F, .32F, .25F, 290, 510)},
          {arc(.62F, .5F, .4F, .5F, 290, 110), arc(.52F, .72F, .27F, .27F, 90, -200)},
          {move(.14F, .12F), line(.16F, 0), line(.84F, .03F), line(.56F, .48F), line(.45F, 1)},
          {arc(.53F, .22F, .21F, .22F, 70, 430), arc(.47F, .72F, .3F, .28F, 300, 650)},
          {arc(.48F, .29F, .27F, .29F, 0, 360), line(.7F, 1)},
      }},
      {{  // wide, with straight stems
          {arc(.5F, .5F, .42F, .48F, 45, 405)},
          {move(.2F, .36F), line(.56F, 0), line(.56F, 1)},
          {arc(.5F, .3F, .37F, .3F, 180, 420), line(.12F, 1), line(.88F, 1), line(.9F, .85F)},
          {arc(.42F, .24F, .35F, .24F, 225, 450), arc(.42F, .74F, .42F, .26F, 270, 495)},
          {move(.55F, 0), line(.08F, .74F), line(.92F, .74F), move(.7F, .45F), line(.7F, 1)},
          {move(.85F, 0), line(.25F, 0), line(.24F, .42F), arc(.42F, .7F, .42F, .3F, 240, 490)},
          {move(.68F, 0), arc(.5F, .69F, .34F, .31F, 200, 560)},
          {move(.1F, .15F), line(.1F, 0), line(.9F, 0), line(.32F, 1)},
          {arc(.5F, .25F, .33F, .25F, 60, 420), arc(.5F, .75F, .41F, .25F, 300, 600), line(.66F, .47F)},
          {arc(.5F, .31F, .34F, .31F, 20, 380), line(.34F, 1)},
      }},
  }};
  return all;
}
// clang-format on

}  // namespace

std::span<const Stroke> glyph(int font, int digit) {
  LACONIC_CHECK(font < kFonts);
  LACONIC_CHECK(digit < 10);
  return fonts()[static_cast<std::size_t>(font)][static_cast<std::size_t>(digit)];
}

float sine_of_turns(float turns) {
  // To (−1/2, 1/2], then by sin(π − x) = sin x to a quarter turn about 0, where the series needs few terms.
  double t = static_cast<double>(turns) - static_cast<double>(static_cast<long long>(turns));
  if (t > 0.5) t -= 1.0;
  if (t < -0.5) t += 1.0;
  if (t > 0.25) t = 0.5 - t;
  if (t < -0.25) t = -0.5 - t;
  const double x = t * 6.283185307179586;
  const double s = x * x;
  double sum = -1.0 / 39916800.0;
  for (const double term : {1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0}) sum = sum * s + term;
  return static_cast<float>(x * sum);
}

}  // namespace laconic
