// Saved state as bytes: what is not whole, or lies where the host cannot read it, is refused.

#include <gtest/gtest.h>

#include <limits>

#include "laconic/error.h"
#include "laconic/method.h"
#include "methods/saved_entries.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::vector<std::byte> saved() {
  State state;
  const std::vector<float> values{1.0F, -2.5F, 3.0F};
  state.put("values", values);
  state.put("step", 7.0);
  state.put("method", "topk");
  return state.to_bytes();
}

TEST(StateBytes, GoRound) {
  const std::vector<std::byte> bytes = saved();
  const State state = State::from_bytes(bytes);
  EXPECT_EQ(state.number("step"), 7.0);
  EXPECT_EQ(state.text("method"), "topk");
  EXPECT_EQ(state.names(), (std::vector<std::string>{"values", "step", "method"}));
  EXPECT_THROW(state.text("step"), InvalidConfig);
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

// With a checksum that fits, as a hand that edits them would leave them.
TEST(StateBytes, ThatNoStateHasAreRefused) {
  const State state = State::from_bytes(saved());
  const std::vector<SavedEntry> sound = entries_of(state);
  ASSERT_EQ(bytes_of(sound), saved());
  const auto refused = [](const std::vector<SavedEntry>& entries) {
    return message_of<CorruptPayload>([&] { State::from_bytes(bytes_of(entries)); });
  };
  std::vector<SavedEntry> twice = sound;
  twice.push_back(sound[0]);
  EXPECT_TRUE(contains(refused(twice), "two entries named values")) << refused(twice);
  for (const auto& [kind, bytes] : {std::pair<char, std::size_t>{'x', 4}, {'f', 3}, {'u', 5}, {'d', 0}, {'d', 16}}) {
    std::vector<SavedEntry> odd = sound;
    odd[0].kind = kind;
    odd[0].values.resize(bytes);
    EXPECT_TRUE(contains(refused(odd), "entry values has a kind or a size")) << kind << bytes << refused(odd);
  }
}

TEST(StateBytes, OfTheFirstFormatAreRefusedInWords) {
  std::vector<std::byte> bytes{std::byte{'1'}, std::byte{'L'}, std::byte{'C'}, std::byte{'S'}};
  bytes.resize(8);  // no entries
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::byte each : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 0x100000001B3;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(hash >> (8 * i)));
  const auto text = message_of<InvalidConfig>([&] { State::from_bytes(bytes); });
  EXPECT_TRUE(contains(text, "format 1") && contains(text, "reads format 2")) << text;
  EXPECT_TRUE(contains(text, "start a new run")) << text;
}

TEST(StateNumbers, CountOrAreRefused) {
  State state;
  state.put("whole", 7.0);
  state.put("part", 7.5);
  state.put("below", -1.0);
  state.put("none", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(state.count("whole"), 7U);
  EXPECT_EQ(state.count("whole", 7), 7U);
  EXPECT_THROW(state.count("whole", 6), InvalidConfig);
  for (const char* name : {"part", "below", "none"}) EXPECT_THROW(state.count(name), InvalidConfig) << name;
  state.require_in("part", 7.0, 7.5);
  EXPECT_THROW(state.require_in("part", 7.0, 7.25), InvalidConfig);
  EXPECT_THROW(state.require_in("none", -1e300, 1e300), InvalidConfig);
  const std::vector<float> values{0.0F, 2.0F};
  state.put("values", values);
  state.require_in("values", 0.0, 2.0);
  EXPECT_THROW(state.require_in("values", 0.0, 1.0), InvalidConfig);
  EXPECT_THROW(state.require_in("missing", 0.0, 1.0), InvalidConfig);
}

TEST(StateBytes, OfADeviceAreNotRead) {
  const std::vector<std::byte> bytes = saved();
  EXPECT_THROW(State::from_bytes({bytes.data(), bytes.size(), Device::cuda}), InvalidConfig);
  EXPECT_THROW(State::from_bytes({nullptr, 1000, Device::cuda}), InvalidConfig);
}

}  // namespace
}  // namespace laconic::test
