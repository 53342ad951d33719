#pragma once

#include <span>

// Forecasts the time of a step on links other than the one it ran on, by the alpha-beta formula: each message costs
// alpha, whatever its length, and each byte costs one over the link's bandwidth. The formula ignores overlap, shared
// links and losses, so its results are marked as forecasts wherever they are shown.

namespace laconic {

/// alpha: the time of one message over TCP between machines in one room. A constant, not a measurement of this machine.
inline constexpr double kMessageSeconds = 50e-6;

struct Link {
  const char* name;  ///< as people write it: "100 Mbit/s"
  double bits_per_second;
};

/// 100 Mbit/s, 1, 10 and 100 Gbit/s.
std::span<const Link> forecast_links();

/// What one rank does in a step, or in a mean step if the method has rounds.
struct StepCost {
  double compute_seconds = 0.0;  ///< measured time of a step without waits for messages
  double sent_messages = 0.0;
  double sent_bytes = 0.0;
};

/// compute + messages * alpha + bytes / beta, where beta is the link's bandwidth in bytes per second. Links carry data
/// both ways at once, so received bytes add nothing.
double forecast_step_seconds(const StepCost& cost, const Link& link);

}  // namespace laconic
