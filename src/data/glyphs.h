#pragma once

#include <span>

// The stroke fonts of the task `digits`, in code: nothing is read, and every machine draws the same.

namespace laconic {

inline constexpr int kFonts = 4;

/// A part of a pen's way in a box of height 1 and width 1, y downwards.
struct Stroke {
  enum class Kind : unsigned char { move, line, arc };
  Kind kind = Kind::move;
  float x = 0.0F;  ///< where the pen goes, or the centre of the arc
  float y = 0.0F;
  float radius_x = 0.0F;
  float radius_y = 0.0F;
  float from =
      0.0F;         ///< of an arc in degrees: 0 right, 90 down, 180 left, 270 up; the pen first draws a line to there,
  float to = 0.0F;  ///< unless the pen is up
};

/// How the font writes the digit. The first stroke is a move, or an arc that begins with the pen up.
std::span<const Stroke> glyph(int font, int digit);

/// Sine of a number of full turns, within 1e-7, by + − × alone: libraries' sines differ.
float sine_of_turns(float turns);

}  // namespace laconic
