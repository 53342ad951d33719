#include <gtest/gtest.h>

#include "codecs/dense.h"
#include "codecs/samples.h"
#include "codecs/sparse.h"
#include "laconic/error.h"
#include "support/places.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::Guarded;
using test::Payload;
using test::for_each_place;

/// Sizes for which every combination runs; a million runs apart.
std::vector<std::size_t> sizes() { return {0, 1, 2, 3, 8, 31, 33, 127, 512, 513, 1025, 4099, 99'991}; }

TEST(RoundTrip, EveryCodecSizeFormatLevelAndThreadCount) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  for (const std::size_t n : sizes()) {
    for (const auto& sample : test::samples_of(n)) {
      SCOPED_TRACE(sample->name());
      const Payload expected = sample->encoded(reference);
      for_each_place([&](Place& place) {
        // The same bytes from every implementation, so that ranks may differ in theirs.
        ASSERT_EQ(sample->encoded(place), expected);
        sample->expect_sound(sample->decode(place, expected));
      });
    }
  }
}

TEST(RoundTrip, AMillion) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  Place best({.threads = 3});
  for (const auto& sample : test::samples_of(1'000'000)) {
    SCOPED_TRACE(sample->name());
    const Payload expected = sample->encoded(reference);
    ASSERT_EQ(sample->encoded(best), expected);
    sample->expect_sound(sample->decode(best, expected));
  }
}

TEST(RoundTrip, EncodingTwiceGivesTheSameBytesWhateverLayThere) {
  Place place({.threads = 2});
  for (const std::size_t n : sizes()) {
    for (const auto& sample : test::samples_of(n)) {
      SCOPED_TRACE(sample->name());
      Payload first(sample->max_payload_bytes(), std::byte{0xAA});
      Payload second(sample->max_payload_bytes(), std::byte{0x55});
      Status status;
      sample->encode(place, first, status);
      first.resize(status.payload_bytes);
      sample->encode(place, second, status);
      second.resize(status.payload_bytes);
      EXPECT_EQ(first, second);
    }
  }
}

TEST(RoundTrip, LengthsKeepWhatMaxPayloadBytesPromises) {
  Place place({.threads = 1});
  for (const std::size_t n : sizes()) {
    for (const auto& sample : test::samples_of(n)) {
      SCOPED_TRACE(sample->name());
      Guarded<std::byte> payload(sample->max_payload_bytes(), 4);
      Status status;
      sample->encode(place, payload.view(), status);
      EXPECT_LE(status.payload_bytes, sample->max_payload_bytes());
      EXPECT_EQ(status.payload_bytes % kPayloadAlignment, 0U);
      EXPECT_TRUE(payload.intact());
      if (sample->exact()) {
        EXPECT_EQ(status.payload_bytes, sample->max_payload_bytes());
      }
    }
  }
}

TEST(RoundTrip, TooSmallOrMisplacedBuffersAreRefusedWithBothNumbers) {
  Place place({.threads = 1});
  for (const auto& sample : test::samples_of(1025)) {
    SCOPED_TRACE(sample->name());
    const std::uint64_t needed = sample->max_payload_bytes();
    Payload payload(needed + 8);
    Status status;
    const auto text = test::message_of<InvalidConfig>(
        [&] { sample->encode(place, View<std::byte>(payload.data(), needed - 1), status); });
    EXPECT_TRUE(test::contains(text, std::to_string(needed - 1) + " bytes")) << text;
    EXPECT_TRUE(test::contains(text, "need " + std::to_string(needed))) << text;
    EXPECT_TRUE(test::contains(text, "max_payload_bytes")) << text;
    const View<std::byte> shifted(payload.data() + 1, needed);
    EXPECT_THROW(sample->encode(place, shifted, status), InvalidConfig);
    EXPECT_THROW(sample->decode(place, shifted), InvalidConfig);
    EXPECT_EQ(payload, Payload(needed + 8));
  }
}

TEST(RoundTrip, NonfiniteValuesTravelWithTheirFlag) {
  Place place({.threads = 1});
  for (const auto& sample : test::samples_of(600)) {
    SCOPED_TRACE(sample->name());
    Payload payload(sample->max_payload_bytes());
    Status sender;
    sender.nonfinite = 1;  // met earlier in the step
    sample->encode(place, payload, sender);
    const test::Outcome flagged = sample->decode(place, payload);
    sample->expect_sound(flagged);
    EXPECT_EQ(flagged.status.nonfinite, 1U);
    EXPECT_EQ(sample->decode(place, sample->encoded(place)).status.nonfinite, 0U);
  }
}

TEST(RoundTrip, DenseSendersFlagWhatTheyRead) {
  Place place({.threads = 1});
  for (const auto format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    std::vector<float> values(40, 1.0F);
    values[17] = -std::numeric_limits<float>::infinity();
    Payload payload(dense::max_payload_bytes(40, format));
    Status sender;
    dense::encode(place, values, format, payload, view_of(sender));
    EXPECT_EQ(sender.nonfinite, 1U);
    Status receiver;
    std::vector<float> out(40);
    EXPECT_TRUE(dense::decode(place, payload, format, out, view_of(receiver)));
    EXPECT_EQ(receiver.nonfinite, 1U);
    EXPECT_EQ(out, values);
  }
}

TEST(RoundTrip, SixteenBitPayloadsConserveWithTheRoundingKernel) {
  // What a receiver decodes and the sender's error add up to the value: nothing is lost between them.
  Place place({.threads = 2});
  for (const auto format : {ValueFormat::f16, ValueFormat::bf16}) {
    const auto values = test::normal_values(40'000, 9);
    auto rounded = values;
    std::vector<float> errors(values.size());
    Status status;
    round_through_16bit(place, format, rounded, errors, view_of(status));
    Payload payload(dense::max_payload_bytes(values.size(), format));
    dense::encode(place, values, format, payload, view_of(status));
    std::vector<float> decoded(values.size());
    ASSERT_TRUE(dense::decode(place, payload, format, decoded, view_of(status)));
    EXPECT_EQ(decoded, rounded);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(decoded[i] + errors[i], values[i]);
  }
}

TEST(RoundTrip, NothingIsAllocatedAfterTheFirstUse) {
  for (const int threads : {1, 3}) {
    Place place({.threads = threads});
    for (const auto& sample : test::samples_of(99'991)) {
      SCOPED_TRACE(sample->name());
      const bool own_vector = sample->name().starts_with("block") && sample->name().find("in place") != std::string::npos;
      if (own_vector) continue;
      Payload payload(sample->max_payload_bytes());
      Status status;
      sample->encode(place, payload, status);
      const auto before = test::allocation_count();
      sample->encode(place, payload, status);
      EXPECT_EQ(test::allocation_count(), before);
    }
    // Decoders, with buffers of the test's own.
    std::vector<float> values(99'991);
    std::vector<std::uint32_t> indices(99'991);
    for (std::uint32_t i = 0; i < 30'000; ++i) indices[i] = 3 * i;
    Payload payload(sparse::max_payload_bytes(30'000, 99'991, ValueFormat::f16));
    Status status;
    const SparseView entries{View<std::uint32_t>(indices).sub(0, 30'000), View<float>(values).sub(0, 30'000)};
    sparse::encode(place, entries, {0, 99'991}, ValueFormat::f16, payload, view_of(status));
    ASSERT_TRUE(sparse::decode(place, payload, {0, 99'991}, ValueFormat::f16, entries, view_of(status)));
    const auto before = test::allocation_count();
    ASSERT_TRUE(sparse::decode(place, payload, {0, 99'991}, ValueFormat::f16, entries, view_of(status)));
    EXPECT_EQ(test::allocation_count(), before);
  }
}

}  // namespace
}  // namespace laconic
