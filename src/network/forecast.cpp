#include "network/forecast.h"

namespace laconic {

std::span<const Link> forecast_links() {
  static constexpr Link kLinks[]{{"100 Mbit/s", 1e8}, {"1 Gbit/s", 1e9}, {"10 Gbit/s", 1e10}, {"100 Gbit/s", 1e11}};
  return kLinks;
}

double forecast_step_seconds(const StepCost& cost, const Link& link) {
  return cost.compute_seconds + cost.sent_messages * kMessageSeconds + 8.0 * cost.sent_bytes / link.bits_per_second;
}

}  // namespace laconic
