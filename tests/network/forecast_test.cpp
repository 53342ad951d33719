// The alpha-beta formula against figures worked out by hand.

#include "network/forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace laconic {
namespace {

TEST(Forecast, AddsComputationMessagesAndBytes) {
  const StepCost cost{.compute_seconds = 0.010, .sent_messages = 6.0, .sent_bytes = 12.5e6};
  // 12.5 MB are 100 Mbit: a second, a tenth, a hundredth, a thousandth. Six messages are 0.3 ms.
  const double bytes[] = {1.0, 0.1, 0.01, 0.001};
  ASSERT_EQ(forecast_links().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(forecast_step_seconds(cost, forecast_links()[i]), 0.0103 + bytes[i], 1e-12) << forecast_links()[i].name;
  }
}

TEST(Forecast, OfNoMessagesIsTheComputation) {
  for (const Link& link : forecast_links()) {
    EXPECT_EQ(forecast_step_seconds({.compute_seconds = 0.25}, link), 0.25) << link.name;
  }
}

TEST(Forecast, LinksAreNamedByWhatTheyCarry) {
  const char* const names[] = {"100 Mbit/s", "1 Gbit/s", "10 Gbit/s", "100 Gbit/s"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(forecast_links()[i].name, std::string(names[i]));
    EXPECT_DOUBLE_EQ(forecast_links()[i].bits_per_second, 1e8 * std::pow(10.0, static_cast<double>(i)));
  }
}

}  // namespace
}  // namespace laconic
