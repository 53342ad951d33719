#include "kernels/bitpack/bitpack.h"

#include <gtest/gtest.h>

#include <random>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

std::vector<std::uint32_t> random_fields(std::size_t n, int bits) {
  std::mt19937_64 engine(n * 64 + static_cast<std::size_t>(bits));
  std::vector<std::uint32_t> fields(n);
  for (auto& field : fields) field = static_cast<std::uint32_t>(engine() & ((std::uint64_t{1} << bits) - 1));
  return fields;
}

bool bit_of(const std::vector<std::byte>& bytes, std::size_t bit) {
  return (std::to_integer<unsigned>(bytes[bit / 8]) >> bit % 8 & 1U) != 0;
}

/// Where bitpack.h says that bit `bit` of field f stands, written down bit by bit.
std::size_t place_of(std::size_t n, std::size_t f, int bits, int bit) {
  const auto width = static_cast<std::size_t>(bits);
  const std::size_t grouped = n / 512 * 512;
  if (f >= grouped) return grouped * width + (f - grouped) * width + static_cast<std::size_t>(bit);
  const std::size_t group = f / 512;
  const std::size_t lane = f % 16;
  const std::size_t in_lane = f % 512 / 16 * width + static_cast<std::size_t>(bit);
  const std::size_t word = group * 16 * width + in_lane / 32 * 16 + lane;
  return word * 32 + in_lane % 32;
}

TEST(Bitpack, ReferenceLaysBitsWhereTheHeaderSays) {
  Place place({.threads = 1, .simd = SimdLevel::reference});
  for (int bits = 0; bits <= 32; ++bits) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{77}, std::size_t{512}, std::size_t{1537}}) {
      const auto fields = random_fields(n, bits);
      std::vector<std::byte> packed(packed_bytes(n, bits), std::byte{0xFF});
      pack_fields(place, fields, bits, packed);
      std::vector<bool> seen(packed.size() * 8, false);
      for (std::size_t f = 0; f < n; ++f) {
        for (int bit = 0; bit < bits; ++bit) {
          const std::size_t at = place_of(n, f, bits, bit);
          ASSERT_FALSE(seen[at]);
          seen[at] = true;
          ASSERT_EQ(bit_of(packed, at), (fields[f] >> bit & 1U) != 0)
              << "bits " << bits << " n " << n << " field " << f;
        }
      }
      for (std::size_t at = 0; at < seen.size(); ++at) ASSERT_TRUE(seen[at] || !bit_of(packed, at)) << "filling";
    }
  }
}

TEST(Bitpack, EveryLevelWritesTheReferencesBytesAndReadsThemBack) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 2, 3}) {
      Place place({.threads = threads, .simd = level});
      for (int bits = 0; bits <= 32; ++bits) {
        for (const std::size_t n : {0UL, 1UL, 31UL, 511UL, 512UL, 513UL, 1024UL, 4099UL, 99991UL}) {
          if (n > 5000 && bits % 5 != 0) continue;
          const auto fields = random_fields(n, bits);
          Guarded<std::uint32_t> input(fields, n % 7);
          std::vector<std::byte> expected(packed_bytes(n, bits));
          pack_fields(reference, fields, bits, expected);
          Guarded<std::byte> packed(packed_bytes(n, bits), n % 5 + 1);
          pack_fields(place, input.view(), bits, packed.view());
          ASSERT_TRUE(packed.intact());
          ASSERT_EQ(packed.values(), expected) << simd_name(level) << " threads " << threads << " bits " << bits;
          Guarded<std::uint32_t> back(n, 3, 0xABCD'1234U);
          unpack_fields(place, packed.view(), bits, back.view());
          ASSERT_TRUE(back.intact());
          ASSERT_EQ(back.values(), fields) << simd_name(level) << " threads " << threads << " bits " << bits;
        }
      }
    }
  }
}

TEST(Bitpack, HigherBitsAreCutOff) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 1, .simd = level});
    for (const int bits : {0, 1, 5, 16, 31}) {
      const std::vector<std::uint32_t> fields(515, 0xFFFF'FFFFU);
      std::vector<std::byte> packed(packed_bytes(fields.size(), bits));
      pack_fields(place, fields, bits, packed);
      std::vector<std::uint32_t> back(fields.size());
      unpack_fields(place, packed, bits, back);
      ASSERT_EQ(back, std::vector<std::uint32_t>(fields.size(), (1U << bits) - 1)) << simd_name(level);
    }
  }
}

TEST(Bitpack, RefusesWrongWidthsAndSizes) {
  Place place({.threads = 1});
  std::vector<std::uint32_t> fields(10);
  std::vector<std::byte> packed(packed_bytes(10, 7) + 1);
  const auto width = message_of<InvalidConfig>([&] { pack_fields(place, fields, 33, packed); });
  EXPECT_TRUE(contains(width, "33") && contains(width, "0..32")) << width;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { unpack_fields(place, packed, -1, fields); }), "-1"));
  const auto size = message_of<InvalidConfig>([&] { pack_fields(place, fields, 7, packed); });
  EXPECT_TRUE(contains(size, "packed has 10 entries, expected 9")) << size;
}

TEST(Bitpack, DoesNotAllocate) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    const auto fields = random_fields(100'000, 11);
    std::vector<std::uint32_t> back(fields.size());
    std::vector<std::byte> packed(packed_bytes(fields.size(), 11));
    pack_fields(place, fields, 11, packed);
    const auto before = allocation_count();
    pack_fields(place, fields, 11, packed);
    unpack_fields(place, packed, 11, back);
    EXPECT_EQ(allocation_count(), before) << simd_name(level);
  }
}

}  // namespace
}  // namespace laconic::test
