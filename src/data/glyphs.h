#pragma once

#include <span>

// The stroke fonts of the task `digits`. They are code, so no file is read and every machine draws the same images.

namespace laconic {

inline constexpr int kFonts = 4;

/// One stroke of a pen in a box of height 1 and width 1. y points down.
struct Stroke {
  enum class Kind : unsigned char { move, line, arc };
  Kind kind = Kind::move;
  float x = 0.0F;  ///< where the pen goes, or the centre of the arc
  float y = 0.0F;
  float radius_x = 0.0F;
  float radius_y = 0.0F;
  /// Start of an arc in degrees: 0 right, 90 down, 180 left, 270 up. A pen that is down first draws a line to the
  /// start.
  float from = 0.0F;
  float to = 0.0F;  ///< end of the arc
};

/// How the font writes the digit. The first stroke is a move, or an arc that begins with the pen up.
std::span<const Stroke> glyph(int font, int digit);

/// Sine of a number of full turns, within 1e-7. It uses only + − ×, because the sines of different libraries differ.
float sine_of_turns(float turns);

}  // namespace laconic
