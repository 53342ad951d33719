#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/samples.h"
#include "codecs/sign.h"
#include "codecs/sparse.h"
#include "codecs/uniform.h"
#include "laconic/error.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::overwrite;
using test::Payload;
using test::reseal;

/// Runs a decoder on a damaged payload and says what it noted; fails the test if it accepted it or wrote anything.
PayloadFault fault_of(const test::Sample& sample, Place& place, View<const std::byte> payload) {
  const test::Outcome outcome = sample.decode(place, payload);
  EXPECT_FALSE(outcome.accepted);
  EXPECT_TRUE(outcome.guards_intact);
  EXPECT_TRUE(outcome.untouched);
  EXPECT_EQ(outcome.status.nonfinite, 0U);
  return outcome.status.fault;
}

TEST(Damage, EveryFlippedBitIsRefused) {
  Place place({.threads = 1});
  for (const std::size_t n : {0U, 1U, 40U, 600U}) {
    for (const auto& sample : test::samples_of(n)) {
      SCOPED_TRACE(sample->name());
      Payload payload = sample->encoded(place);
      for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        ASSERT_NE(fault_of(*sample, place, payload), PayloadFault::none) << "bit " << bit;
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      }
      sample->expect_sound(sample->decode(place, payload));
    }
  }
}

TEST(Damage, EveryTruncationIsRefusedAndExtraBytesAreNot) {
  Place place({.threads = 1});
  for (const std::size_t n : {1U, 40U, 600U}) {
    for (const auto& sample : test::samples_of(n)) {
      SCOPED_TRACE(sample->name());
      Payload payload = sample->encoded(place);
      for (std::size_t length = 0; length < payload.size(); ++length) {
        const Payload cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
        ASSERT_EQ(fault_of(*sample, place, cut), PayloadFault::too_short) << length;
      }
      payload.insert(payload.end(), 100, std::byte{0xEE});
      sample->expect_sound(sample->decode(place, payload));
    }
  }
}

TEST(Damage, ForeignHeadersAreRefusedByName) {
  Place place({.threads = 1});
  for (const auto& sample : test::samples_of(600)) {
    SCOPED_TRACE(sample->name());
    const Payload sound = sample->encoded(place);
    const auto with = [&](std::size_t offset, auto value) {
      Payload payload = sound;
      overwrite(payload, offset, value);
      reseal(place, payload);
      return fault_of(*sample, place, payload);
    };
    EXPECT_EQ(with(offsetof(PayloadHeader, magic), std::uint32_t{0x12345678}), PayloadFault::wrong_magic);
    EXPECT_EQ(with(offsetof(PayloadHeader, version), std::uint8_t{kWireVersion + 1}), PayloadFault::wrong_version);
    EXPECT_EQ(with(offsetof(PayloadHeader, codec), std::uint8_t{9}), PayloadFault::wrong_codec);
    EXPECT_EQ(with(offsetof(PayloadHeader, format), std::uint8_t{77}), PayloadFault::wrong_format);
    EXPECT_EQ(with(offsetof(PayloadHeader, flags), std::uint8_t{0x80}), PayloadFault::wrong_format);
    EXPECT_EQ(with(offsetof(PayloadHeader, payload_bytes), std::uint64_t{31}), PayloadFault::wrong_length);
    EXPECT_EQ(with(offsetof(PayloadHeader, payload_bytes), ~std::uint64_t{3}), PayloadFault::too_short);
    EXPECT_EQ(with(offsetof(PayloadHeader, elements), ~std::uint64_t{0}), PayloadFault::wrong_elements);
    EXPECT_NE(with(offsetof(PayloadHeader, count), ~std::uint32_t{0}), PayloadFault::none);
    Payload longer = sound;  // a body with four bytes more than its fields say
    longer.resize(longer.size() + 4);
    overwrite(longer, offsetof(PayloadHeader, payload_bytes), std::uint64_t{longer.size()});
    reseal(place, longer);
    EXPECT_EQ(fault_of(*sample, place, longer), PayloadFault::wrong_length);
  }
}

TEST(Damage, PayloadsOfOtherSizesAreRefused) {
  Place place({.threads = 1});
  const auto small = test::samples_of(600);
  const auto large = test::samples_of(1300);
  for (std::size_t i = 0; i < small.size(); ++i) {
    SCOPED_TRACE(small[i]->name());
    EXPECT_EQ(fault_of(*small[i], place, large[i]->encoded(place)), PayloadFault::wrong_elements);
    EXPECT_EQ(fault_of(*large[i], place, small[i]->encoded(place)), PayloadFault::wrong_elements);
  }
}

TEST(Damage, DenseValuesOfAnotherDrawAreRefused) {
  Place place({.threads = 1});
  std::vector<float> values{1.0F, 2.0F, 3.0F};
  Payload payload(dense::max_payload_bytes(3, ValueFormat::f32));
  Status sender;
  dense::encode(place, values, ValueFormat::f32, payload, view_of(sender), 7);
  for (const std::uint32_t expected : {0U, 7U, 8U}) {
    Status status;
    std::vector<float> out(3, 9.0F);
    EXPECT_EQ(dense::decode(place, payload, ValueFormat::f32, out, view_of(status), expected), expected == 7);
    EXPECT_EQ(status.fault, expected == 7   ? PayloadFault::none
                            : expected == 0 ? PayloadFault::wrong_count
                                            : PayloadFault::wrong_blocks);
    EXPECT_EQ(out, expected == 7 ? values : std::vector<float>(3, 9.0F));
  }
}

TEST(Damage, FirstFaultStaysAndBecomesOneError) {
  Place place({.threads = 1});
  Status status;
  std::vector<float> out(4);
  Payload payload(dense::max_payload_bytes(4, ValueFormat::f32));
  dense::encode(place, out, ValueFormat::f32, payload, view_of(status));
  std::vector<float> five(5);
  EXPECT_FALSE(dense::decode(place, payload, ValueFormat::f32, five, view_of(status)));
  EXPECT_FALSE(dense::decode(place, View<const std::byte>(payload).sub(0, 12), ValueFormat::f32, out, view_of(status)));
  const auto text = test::message_of<CorruptPayload>([&] { require_sound(place, view_of(status)); });
  EXPECT_TRUE(test::contains(text, "for a view of another size: at byte 16 found 4, expected 5")) << text;
}

// What a careful adversary sends: the checksum fits, the content does not. -------------------------------------------

class Sparse : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 1'000;
  static constexpr std::size_t kBody = 40;  // header and the range's first index

  Payload encoded(const std::vector<std::uint32_t>& indices) {
    const std::vector<float> values(indices.size(), 1.0F);
    Payload payload(sparse::max_payload_bytes(indices.size(), kSize, ValueFormat::f32));
    Status status;
    sparse::encode(place_, {indices, values}, {0, kSize}, ValueFormat::f32, payload, view_of(status));
    payload.resize(status.payload_bytes);
    return payload;
  }

  Status decoded(Payload payload, std::size_t capacity, sparse::IndexRange range = {0, kSize}) {
    reseal(place_, payload);
    test::Guarded<std::uint32_t> indices(capacity, 3);
    test::Guarded<float> values(capacity, 5);
    Status status;
    const bool accepted =
        sparse::decode(place_, payload, range, ValueFormat::f32, {indices.view(), values.view()}, view_of(status));
    EXPECT_EQ(accepted, status.fault == PayloadFault::none);
    EXPECT_TRUE(indices.intact() && values.intact());
    if (!accepted) {
      EXPECT_EQ(status.count, 0U);
    }
    return status;
  }

  static int coding_of(const Payload& payload) { return std::to_integer<int>(payload[7]) >> 1 & 3; }

  Place place_{{.threads = 1}};
};

TEST_F(Sparse, CodingsAreChosenBySize) {
  EXPECT_EQ(coding_of(encoded({999})), 0);  // one gap of 10 bits and its width take 8 bytes, raw 4
  EXPECT_EQ(coding_of(encoded({3, 500, 999})), 1);
  std::vector<std::uint32_t> many;
  for (std::uint32_t i = 0; i < 1'000; i += 3) many.push_back(i);
  many[5] += 1;  // gaps of up to 3: 2 bits each are less than the bitmap's 3
  EXPECT_EQ(coding_of(encoded(many)), 1);
  many.clear();
  for (std::uint32_t i = 0; i < 1'000; i += i % 7 == 0 ? 9 : 2) many.push_back(i);
  EXPECT_EQ(coding_of(encoded(many)), 2);
}

TEST_F(Sparse, OtherRangesAreRefused) {
  const Payload payload = encoded({1, 2, 3, 500});
  EXPECT_EQ(decoded(payload, 4).count, 4U);
  EXPECT_EQ(decoded(payload, 4, {0, 999}).fault, PayloadFault::wrong_elements);
  const Status moved = decoded(payload, 4, {1, kSize});  // as long, but elsewhere
  EXPECT_EQ(moved.fault, PayloadFault::wrong_elements);
  EXPECT_EQ(moved.fault_offset, 32U);
  EXPECT_EQ(moved.fault_expected, 1U);
}

TEST_F(Sparse, MoreEntriesThanFitAreRefused) {
  const Payload payload = encoded({1, 2, 3, 500});
  const Status status = decoded(payload, 3);
  EXPECT_EQ(status.fault, PayloadFault::wrong_count);
  EXPECT_EQ(status.fault_found, 4U);
  EXPECT_EQ(status.fault_expected, 3U);
  EXPECT_EQ(decoded(payload, 7).count, 4U);
}

TEST_F(Sparse, RawIndicesMustAscendInside) {
  Payload payload = encoded({7});
  ASSERT_EQ(coding_of(payload), 0);
  overwrite(payload, kBody, std::uint32_t{999});
  EXPECT_EQ(decoded(payload, 1).count, 1U);
  overwrite(payload, kBody, std::uint32_t{1'000});
  EXPECT_EQ(decoded(payload, 1).fault, PayloadFault::wrong_index);
  // Two raw entries, made from a payload of gaps: 2 indices and 2 values.
  payload.assign(kBody + 16, std::byte{0});
  const Payload one = encoded({7});
  std::copy(one.begin(), one.begin() + kBody, payload.begin());
  overwrite(payload, offsetof(PayloadHeader, payload_bytes), std::uint64_t{payload.size()});
  overwrite(payload, offsetof(PayloadHeader, count), std::uint32_t{2});
  overwrite(payload, kBody, std::uint32_t{5});
  overwrite(payload, kBody + 4, std::uint32_t{6});
  EXPECT_EQ(decoded(payload, 2).count, 2U);
  overwrite(payload, kBody + 4, std::uint32_t{5});
  EXPECT_EQ(decoded(payload, 2).fault, PayloadFault::wrong_index);
  overwrite(payload, kBody + 4, std::uint32_t{4});
  EXPECT_EQ(decoded(payload, 2).fault, PayloadFault::wrong_index);
}

TEST_F(Sparse, GapsMustStayInsideAndWidthsBelow33) {
  Payload payload = encoded({3, 500, 999});  // one width of 9 bits, 3 bytes of filling, 27 bits, 5 bits of filling
  ASSERT_EQ(coding_of(payload), 1);
  ASSERT_EQ(std::to_integer<int>(payload[kBody]), 9);
  Payload wide = payload;
  wide[kBody] = std::byte{33};
  EXPECT_EQ(decoded(wide, 3).fault, PayloadFault::wrong_format);
  wide[kBody] = std::byte{32};  // needs 12 bytes of gaps where 4 are
  EXPECT_EQ(decoded(wide, 3).fault, PayloadFault::wrong_length);
  Payload far = payload;
  far[kBody + 4] |= std::byte{0x0C};  // first gap 15 instead of 3
  EXPECT_EQ(decoded(far, 3).fault, PayloadFault::wrong_index);
  Payload filled = payload;
  filled[kBody + 2] = std::byte{1};  // behind the width
  EXPECT_EQ(decoded(filled, 3).fault, PayloadFault::wrong_length);
  filled = payload;
  filled[kBody + 7] |= std::byte{0x08};  // behind the last gap
  EXPECT_EQ(decoded(filled, 3).fault, PayloadFault::wrong_length);
}

TEST_F(Sparse, BitmapsMustHaveTheirCountAndNothingBehind) {
  std::vector<std::uint32_t> many;
  for (std::uint32_t i = 0; i < 1'000; i += i % 7 == 0 ? 9 : 2) many.push_back(i);
  Payload payload = encoded(many);
  ASSERT_EQ(coding_of(payload), 2);
  EXPECT_EQ(decoded(payload, many.size()).count, many.size());
  Payload more = payload;
  more[kBody] ^= std::byte{0x04};
  EXPECT_EQ(decoded(more, many.size()).fault, PayloadFault::wrong_index);
  Payload behind = payload;
  behind[kBody] ^= std::byte{0x01};
  behind[kBody + 125] |= std::byte{0x01};  // entry 1,000 instead of entry 0: the count still fits
  EXPECT_EQ(decoded(behind, many.size()).fault, PayloadFault::wrong_index);
}

TEST_F(Sparse, UnknownCodingIsRefused) {
  Payload payload = encoded({1, 2, 3});
  payload[7] |= std::byte{6};
  EXPECT_EQ(decoded(payload, 3).fault, PayloadFault::wrong_format);
}

TEST_F(Sparse, EncodingRefusesWrongIndices) {
  const auto text = test::message_of<InvalidConfig>([&] { encoded({5, 5}); });
  EXPECT_TRUE(test::contains(text, "entry 1 has index 5")) << text;
  EXPECT_THROW(encoded({1'000}), InvalidConfig);
  Status status;
  Payload payload(64);
  EXPECT_THROW(sparse::encode(place_, {}, {1, ~std::uint64_t{0}}, ValueFormat::f32, payload, view_of(status)),
               InvalidConfig);
}

TEST(Damage, UniformNormsAndFillingAreChecked) {
  Place place({.threads = 1});
  const Layout layout(3);  // 3 fields of 3 bits: 9 bits, so 7 bits and 2 bytes of filling
  const std::vector<float> values{1.0F, -2.0F, 3.0F};
  const std::vector<float> norms{3.0F};
  const RandomStream stream{.seed = 1, .step = 0, .rank = 0, .tensor = 0, .purpose = Purpose::rounding};
  Payload sound(uniform::max_payload_bytes(layout, 0, 3, 3));
  ASSERT_EQ(sound.size(), 32U + 4U + 4U);
  Status status;
  uniform::encode(place, values, layout, 0, 3, norms, 3, stream, sound, view_of(status));
  const auto fault = [&](Payload payload) {
    reseal(place, payload);
    test::Guarded<float> out(3, 3, 1.0F);
    Status noted;
    const bool accepted = uniform::decode_add(place, payload, layout, 0, 3, 3, out.view(), view_of(noted));
    EXPECT_EQ(accepted, noted.fault == PayloadFault::none);
    if (!accepted) {
      EXPECT_EQ(out.values(), std::vector<float>(3, 1.0F));
    }
    EXPECT_TRUE(out.intact());
    return noted.fault;
  };
  EXPECT_EQ(fault(sound), PayloadFault::none);
  for (const float norm : {-1.0F, INFINITY, NAN, -0x1p-149F}) {
    Payload payload = sound;
    overwrite(payload, 32, norm);
    EXPECT_EQ(fault(payload), PayloadFault::wrong_norm) << norm;
  }
  Payload payload = sound;
  payload[37] |= std::byte{0x02};  // behind the ninth bit
  EXPECT_EQ(fault(payload), PayloadFault::wrong_length);
  payload = sound;
  payload[39] = std::byte{1};
  EXPECT_EQ(fault(payload), PayloadFault::wrong_length);
}

TEST(Damage, UniformSendsAZeroNormWithTheFlagForOneThatIsNotFinite) {
  Place place({.threads = 1});
  const Layout layout(40);
  const auto values = test::normal_values(40, 1);
  const RandomStream stream{.seed = 1, .step = 0, .rank = 0, .tensor = 0, .purpose = Purpose::rounding};
  Payload payload(uniform::max_payload_bytes(layout, 0, 40, 4));
  const std::vector<float> norms{INFINITY};
  Status sender;
  uniform::encode(place, values, layout, 0, 40, norms, 4, stream, payload, view_of(sender));
  EXPECT_EQ(sender.nonfinite, 1U);
  std::vector<float> out(40, 1.0F);
  Status receiver;
  EXPECT_TRUE(uniform::decode_add(place, payload, layout, 0, 40, 4, out, view_of(receiver)));
  EXPECT_EQ(receiver.nonfinite, 1U);
  EXPECT_EQ(out, std::vector<float>(40, 1.0F));
  const std::vector<float> negative{-1.0F};
  const auto text = test::message_of<InvalidConfig>(
      [&] { uniform::encode(place, values, layout, 0, 40, negative, 4, stream, payload, view_of(sender)); });
  EXPECT_TRUE(test::contains(text, "norm of scope 0 must be 0 or more, got -1")) << text;
}

TEST(Damage, ASumOfUniformPayloadsIsMadeOfAllOrOfNone) {
  Place place({.threads = 1});
  const Layout layout(700);
  const RandomStream stream{.seed = 1, .step = 0, .rank = 0, .tensor = 0, .purpose = Purpose::rounding};
  std::vector<Payload> messages(3, Payload(uniform::max_payload_bytes(layout, 0, 700, 4)));
  std::vector<float> expected(700, -0.0F);
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    Status status;
    const std::vector<float> norms{4.0F};
    uniform::encode(place, test::normal_values(700, rank), layout, 0, 700, norms, 4, stream, messages[rank],
                    view_of(status), static_cast<float>(rank));
    ASSERT_TRUE(uniform::decode_add(place, messages[rank], layout, 0, 700, 4, expected, view_of(status)));
  }
  const std::vector<View<const std::byte>> payloads(messages.begin(), messages.end());
  std::vector<float> out(700, 1.0F);
  std::vector<float> norms(3);
  Status status;
  EXPECT_TRUE(uniform::decode_sum(place, payloads, layout, 0, 700, 4, 1.0F, out, view_of(status), norms));
  EXPECT_EQ(out, expected);
  EXPECT_EQ(norms, (std::vector<float>{0.0F, 1.0F, 2.0F}));
  messages[2][100] ^= std::byte{1};
  out.assign(700, 1.0F);
  EXPECT_FALSE(uniform::decode_sum(place, payloads, layout, 0, 700, 4, 1.0F, out, view_of(status), norms));
  EXPECT_EQ(status.fault, PayloadFault::wrong_checksum);
  EXPECT_EQ(out, std::vector<float>(700, 1.0F)) << "written from a list with a damaged payload";
}

TEST(Damage, TheSendersOwnNormTravelsAndIsChecked) {
  Place place({.threads = 1});
  const Layout layout(40);
  const auto values = test::normal_values(40, 1);
  const std::vector<float> norms{4.0F};
  const RandomStream stream{.seed = 1, .step = 0, .rank = 0, .tensor = 0, .purpose = Purpose::rounding};
  Payload payload(uniform::max_payload_bytes(layout, 0, 40, 4));
  Status status;
  uniform::encode(place, values, layout, 0, 40, norms, 4, stream, payload, view_of(status), 2.5F);
  std::vector<float> out(40);
  float sender_norm = 0.0F;
  EXPECT_TRUE(uniform::decode_add(place, payload, layout, 0, 40, 4, out, view_of(status), &sender_norm));
  EXPECT_EQ(sender_norm, 2.5F);
  for (const float norm : {-1.0F, INFINITY, NAN}) {
    overwrite(payload, offsetof(PayloadHeader, count), norm);
    reseal(place, payload);
    Status noted;
    EXPECT_FALSE(uniform::decode_add(place, payload, layout, 0, 40, 4, out, view_of(noted)));
    EXPECT_EQ(noted.fault, PayloadFault::wrong_norm) << norm;
  }
}

TEST(Damage, SignBitsBehindATensorAreRefused) {
  Place place({.threads = 1});
  const std::vector<std::uint64_t> sizes{33, 32, 5};
  const Layout layout(sizes);
  const auto values = test::normal_values(70, 1);
  Payload sound(sign::max_payload_bytes(layout, 0, 70));
  ASSERT_EQ(sound.size(), 32U + 4U * 4U);
  Status status;
  sign::encode(place, values, layout, 0, 70, sound, view_of(status));
  const auto fault = [&](std::size_t byte, std::byte bit) {
    Payload payload = sound;
    payload[byte] ^= bit;
    reseal(place, payload);
    View<const std::uint32_t> words;
    Status noted;
    const bool opened = sign::open(place, payload, layout, 0, 70, words, view_of(noted));
    EXPECT_EQ(opened, noted.fault == PayloadFault::none);
    EXPECT_EQ(words.size(), opened ? 4U : 0U);
    return noted.fault;
  };
  EXPECT_EQ(fault(36, std::byte{1}), PayloadFault::none);          // the 33rd sign
  EXPECT_EQ(fault(36, std::byte{2}), PayloadFault::wrong_length);  // behind it
  EXPECT_EQ(fault(43, std::byte{0x80}), PayloadFault::none);       // the second tensor fills its word
  EXPECT_EQ(fault(44, std::byte{0x20}), PayloadFault::wrong_length);
}

TEST(Damage, CutsInsideAWordAreRefused) {
  const Layout layout(100);
  const auto text = test::message_of<InvalidConfig>([&] { sign::words(layout, 33, 100); });
  EXPECT_TRUE(test::contains(text, "cut at entry 33, which is not a multiple of 32 in its tensor: cut at 32")) << text;
  EXPECT_THROW(sign::words(layout, 0, 101), InvalidConfig);
  EXPECT_THROW(sign::words(layout, 64, 32), InvalidConfig);
  EXPECT_THROW(uniform::max_payload_bytes(layout, 32, 100, 4), InvalidConfig);
  const auto bits = test::message_of<InvalidConfig>([&] { uniform::max_payload_bytes(layout, 0, 100, 17); });
  EXPECT_TRUE(test::contains(bits, "bits must be in 2..16, got 17")) << bits;
}

/// A range that the caller got wrong is not the sender's fault, and nothing is read.
TEST(Damage, WrongRangesAreTheCallers) {
  Place place({.threads = 1});
  const Layout layout(1'000);
  const Payload payload(5'000);
  std::vector<float> out(1'000);
  View<const std::uint32_t> words;
  Status status;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> wrong{{0, 1'001}, {33, 1'000}, {512, 0}};
  for (const auto& [begin, end] : wrong) {
    const ReceivedRange range{payload, begin, end};
    EXPECT_THROW(sign::open(place, {&range, 1}, layout, {&words, 1}, view_of(status)), InvalidConfig);
    EXPECT_THROW(uniform::decode(place, {&range, 1}, layout, 4, 1.0F, out, view_of(status)), InvalidConfig);
  }
  const ReceivedRange range{payload, 0, 1'000};
  EXPECT_THROW(uniform::decode(place, {&range, 1}, layout, 17, 1.0F, out, view_of(status)), InvalidConfig);
  const ReceivedRange beyond{payload, 1, 1'001};
  EXPECT_THROW(dense::decode(place, {&beyond, 1}, ValueFormat::f32, out, view_of(status)), InvalidConfig);
  EXPECT_EQ(status.fault, PayloadFault::none);
}

TEST(Damage, PayloadsOfOtherBlocksAreRefused) {
  Place place({.threads = 1});
  const std::vector<float> flat = test::normal_values(100, 1);
  const std::vector<Block> blocks{{0, 60, 50, 20}, {60, 40, 0, 20}};
  Payload payload(block::max_payload_bytes(16, ValueFormat::f32));
  Status sender;
  block::encode(place, flat, blocks, 8, 16, ValueFormat::f32, payload, view_of(sender));
  const auto fault = [&](std::vector<Block> expected, std::uint64_t begin) {
    std::vector<float> out(100, 1.0F);
    Status status;
    const bool accepted = block::decode(place, payload, expected, begin, 16, ValueFormat::f32, out, view_of(status));
    EXPECT_EQ(accepted, status.fault == PayloadFault::none);
    if (!accepted) {
      EXPECT_EQ(out, std::vector<float>(100, 1.0F));
    }
    return status.fault;
  };
  EXPECT_EQ(fault(blocks, 8), PayloadFault::none);
  EXPECT_EQ(fault(blocks, 7), PayloadFault::wrong_blocks);
  EXPECT_EQ(fault({{0, 60, 49, 20}, {60, 40, 0, 20}}, 8), PayloadFault::wrong_blocks);
  EXPECT_EQ(fault({{0, 60, 50, 21}, {60, 40, 0, 20}}, 8), PayloadFault::wrong_blocks);
  EXPECT_EQ(fault({{0, 60, 50, 20}}, 0), PayloadFault::wrong_blocks);
}

}  // namespace
}  // namespace laconic
