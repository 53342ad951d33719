// Saved state as bytes: what is not whole, or lies where the host cannot read it, is refused.

#include <gtest/gtest.h>

#include "laconic/error.h"
#include "laconic/method.h"

namespace laconic::test {
namespace {

std::vector<std::byte> saved() {
  State state;
  const std::vector<float> values{1.0F, -2.5F, 3.0F};
  state.put("values", values);
  state.put("step", 7.0);
  return state.to_bytes();
}

TEST(StateBytes, GoRound) {
  const std::vector<std::byte> bytes = saved();
  const State state = State::from_bytes(bytes);
  EXPECT_EQ(state.number("step"), 7.0);
  EXPECT_EQ(state.to_bytes(), bytes);
}

TEST(StateBytes, DamageIsSeen) {
  const std::vector<std::byte> sound = saved();
  for (std::size_t i = 0; i < sound.size(); ++i) {
    std::vector<std::byte> damaged = sound;
    damaged[i] ^= std::byte{4};
    EXPECT_THROW(State::from_bytes(damaged), CorruptPayload) << i;
    const std::vector<std::byte> cut(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THROW(State::from_bytes(cut), CorruptPayload) << i;
  }
}

TEST(StateBytes, OfADeviceAreNotRead) {
  const std::vector<std::byte> bytes = saved();
  EXPECT_THROW(State::from_bytes({bytes.data(), bytes.size(), Device::cuda}), InvalidConfig);
  EXPECT_THROW(State::from_bytes({nullptr, 1000, Device::cuda}), InvalidConfig);
}

}  // namespace
}  // namespace laconic::test
