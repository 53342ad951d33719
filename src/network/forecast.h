#pragma once

#include <span>

// What a step would take on other links than the one it ran on: the plain alpha-beta formula, in which a message costs
// alpha whatever its length and a byte what the link's width says. It knows nothing of overlap, of links that are
// shared, or of losses, so what it gives is marked as a forecast wherever it is shown.

namespace laconic {

/// alpha: a message over TCP in one room, from call to call. A constant, not a measurement of this machine.
inline constexpr double kMessageSeconds = 50e-6;

struct Link {
  const char* name;  ///< as people write it: "100 Mbit/s"
  double bits_per_second;
};

/// 100 Mbit/s, 1, 10 and 100 Gbit/s.
std::span<const Link> forecast_links();

/// What one rank does in a step, or in a mean step where rounds come now and then.
struct StepCost {
  double compute_seconds = 0.0;  ///< all that is not waiting for messages, as measured
  double sent_messages = 0.0;
  double sent_bytes = 0.0;
};

/// compute + messages * alpha + bytes / beta, beta being the link's bytes a second. Links carry both ways at once, so
/// what is received costs nothing more.
double forecast_step_seconds(const StepCost& cost, const Link& link);

}  // namespace laconic
