#include "kernels/checksum/checksum.h"

#include <gtest/gtest.h>

#include <random>

#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::for_each_place;

std::vector<std::byte> random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
  return bytes;
}

std::uint32_t rotated(std::uint32_t word, int by) { return word << by | word >> (32 - by); }

/// The header's text, a word at a time and without a vector in sight.
std::uint32_t model(const std::vector<std::byte>& bytes) {
  auto hash = static_cast<std::uint32_t>(bytes.size());
  for (std::size_t begin = 0; begin < bytes.size(); begin += kChecksumBlock) {
    const std::size_t length = std::min(kChecksumBlock, bytes.size() - begin);
    std::uint32_t lanes[16];
    for (std::uint32_t lane = 0; lane < 16; ++lane) lanes[lane] = lane + 1;
    for (std::size_t word = 0; word < (length + 63) / 64 * 16; ++word) {
      std::uint32_t value = 0;
      for (std::size_t byte = 0; byte < 4; ++byte) {
        const std::size_t position = word * 4 + byte;
        if (position < length) value |= std::to_integer<std::uint32_t>(bytes[begin + position]) << (8 * byte);
      }
      lanes[word % 16] = rotated(lanes[word % 16] ^ value, 15) * 0x9E3779B1U;
    }
    auto block = static_cast<std::uint32_t>(length);
    for (const std::uint32_t lane : lanes) block = rotated((block ^ lane) * 0x85EBCA6BU, 13);
    hash = rotated((hash ^ block) * 0x85EBCA6BU, 13);
  }
  return hash;
}

TEST(Checksum, FollowsItsDescriptionEverywhere) {
  for (const std::size_t n : test::awkward_sizes()) {
    auto bytes = random_bytes(n, n);
    const std::uint32_t expected = model(bytes);
    bytes.insert(bytes.begin(), 3, std::byte{7});  // off any alignment
    for_each_place(
        [&](Place& place) { EXPECT_EQ(checksum(place, View<const std::byte>(bytes.data() + 3, n)), expected) << n; });
  }
}

TEST(Checksum, HoleCountsAsZero) {
  for (const std::size_t n : {32U, 36U, 64U, 65U, 200U, 70'000U, 200'000U}) {
    for (const std::size_t hole : {0U, 28U, 60U}) {
      if (hole + 4 > n) continue;
      auto bytes = random_bytes(n, n);
      for_each_place([&](Place& place) {
        const std::uint32_t found = checksum_with_hole(place, bytes, hole);
        auto zeroed = bytes;
        std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(hole), 4, std::byte{0});
        EXPECT_EQ(found, model(zeroed)) << n << ", hole " << hole;
      });
    }
  }
}

TEST(Checksum, EveryFlippedBitIsNoticed) {
  Place place({.threads = 1});
  auto bytes = random_bytes(1000, 1);
  const std::uint32_t sound = checksum(place, bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_NE(checksum(place, bytes), sound) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(Checksum, TheSameBitFlippedTwiceIsNoticed) {
  // Two values negated, or one bit of a link stuck: pairs in one lane are where a weaker mix would cancel.
  Place place({.threads = 1});
  auto bytes = random_bytes(64 * 40, 2);
  const std::uint32_t sound = checksum(place, bytes);
  for (std::size_t first = 0; first < 40; ++first) {
    for (std::size_t second = first + 1; second < 40; ++second) {
      for (std::size_t bit = 0; bit < 512; bit += 31) {
        const auto mask = static_cast<std::byte>(1U << bit % 8);
        bytes[first * 64 + bit / 8] ^= mask;
        bytes[second * 64 + bit / 8] ^= mask;
        EXPECT_NE(checksum(place, bytes), sound) << first << ' ' << second << ' ' << bit;
        bytes[first * 64 + bit / 8] ^= mask;
        bytes[second * 64 + bit / 8] ^= mask;
      }
    }
  }
}

TEST(Checksum, SwapsZerosAndLengthsAreNoticed) {
  Place place({.threads = 1});
  auto bytes = random_bytes(200'000, 3);
  const std::uint32_t sound = checksum(place, bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 65'536, bytes.begin() + 65'536);  // two whole blocks
  EXPECT_NE(checksum(place, bytes), sound);
  std::vector<std::byte> zeros(64);
  std::uint32_t previous = checksum(place, {});
  for (std::size_t n = 1; n <= zeros.size(); ++n) {
    const std::uint32_t next = checksum(place, View<const std::byte>(zeros.data(), n));
    EXPECT_NE(next, previous) << n;  // filling is not content
    previous = next;
  }
}

}  // namespace
}  // namespace laconic
