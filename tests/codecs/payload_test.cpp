#include "codecs/payload.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "codecs/samples.h"
#include "codecs/sparse.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Payload;

std::string hex_of(View<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02X", std::to_integer<unsigned>(bytes[i]));
    if (i > 0) text += i % 16 == 0 ? "\n" : " ";
    text += digits;
  }
  return text;
}

TEST(PayloadBytes, AreThoseOfTheWorkedExample) {
  // docs/wire-format.md, "A worked example": three of a thousand entries, values in bfloat16.
  Place place({.threads = 1});
  const std::vector<std::uint32_t> indices{3, 500, 999};
  const std::vector<float> values{1.0F, -2.0F, 0.5F};
  Payload payload(sparse::max_payload_bytes(3, 1000, ValueFormat::bf16));
  Status status;
  sparse::encode(place, {indices, values}, {0, 1000}, ValueFormat::bf16, payload, view_of(status));
  EXPECT_EQ(hex_of(View<const std::byte>(payload).sub(0, status.payload_bytes)),
            "4C 43 4E 31 02 02 02 02 38 00 00 00 00 00 00 00\n"
            "E8 03 00 00 00 00 00 00 03 00 00 00 6D B0 60 45\n"
            "00 00 00 00 00 00 00 00 09 00 00 00 03 E0 CB 07\n"
            "80 3F 00 C0 00 3F 00 00");
}

TEST(PayloadHeaderLayout, IsAsDocumented) {
  EXPECT_EQ(offsetof(PayloadHeader, magic), 0U);
  EXPECT_EQ(offsetof(PayloadHeader, version), 4U);
  EXPECT_EQ(offsetof(PayloadHeader, codec), 5U);
  EXPECT_EQ(offsetof(PayloadHeader, format), 6U);
  EXPECT_EQ(offsetof(PayloadHeader, flags), 7U);
  EXPECT_EQ(offsetof(PayloadHeader, payload_bytes), 8U);
  EXPECT_EQ(offsetof(PayloadHeader, elements), 16U);
  EXPECT_EQ(offsetof(PayloadHeader, count), 24U);
  EXPECT_EQ(offsetof(PayloadHeader, checksum), 28U);
}

TEST(NoteFault, KeepsTheFirst) {
  Place place({.threads = 1});
  Status status;
  EXPECT_FALSE(note_fault(place, view_of(status), PayloadFault::wrong_norm, 1, 2, 3));
  EXPECT_FALSE(note_fault(place, view_of(status), PayloadFault::wrong_count, 4, 5, 6));
  EXPECT_EQ(status.fault, PayloadFault::wrong_norm);
  EXPECT_EQ(status.fault_offset, 1U);
  EXPECT_EQ(status.fault_found, 2U);
  EXPECT_EQ(status.fault_expected, 3U);
}

}  // namespace
}  // namespace laconic
