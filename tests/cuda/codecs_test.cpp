// Codecs on a device against the CPU's: the same bytes, the same decoded values and the same faults.

#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/sign.h"
#include "codecs/uniform.h"
#include "cuda/codecs_fixture.h"

namespace laconic::test {
namespace {

/// Around words, groups of fields, units of bitmaps, and blocks of checksums.
constexpr std::size_t kSampleSizes[] = {0,    1,    2,    3,    31,   33,   511,    512,   513,
                                        1023, 1024, 1025, 2047, 8191, 8193, 17'000, 66'000};

TEST_F(CudaCodecs, EncodeTheSameBytesAndDecodeThem) {
  for (const std::size_t n : kSampleSizes) {
    for (const auto& sample : samples_of(n)) {
      if (left_out()) continue;
      SCOPED_TRACE(sample->name());
      const Payload expected = sample->encoded(reference_);
      EXPECT_TRUE(same_bits(sample->encoded(*place_), expected));
      EXPECT_TRUE(decodes_alike(*sample, expected));
      Payload longer = expected;  // bytes behind a payload are ignored
      longer.insert(longer.end(), 100, std::byte{0xEE});
      EXPECT_TRUE(decodes_alike(*sample, longer));
    }
  }
  EXPECT_EQ(outcomes_.size(), 1U);
}

TEST_F(CudaCodecs, FlagsTravel) {
  for (const auto& sample : samples_of(600)) {
    SCOPED_TRACE(sample->name());
    Status sender;
    sender.nonfinite = 1;
    Status device_sender = sender;
    Payload expected(sample->max_payload_bytes());
    sample->encode(reference_, expected, sender);
    const Placed<std::byte> room(*place_, Payload(expected.size()));
    sample->encode(*place_, room.view(), device_sender);
    EXPECT_TRUE(same_bits(room.values(), expected));
    EXPECT_TRUE(same_status(device_sender, sender));
    EXPECT_TRUE(is_flagged(*place_, room.view()));
    EXPECT_TRUE(decodes_alike(*sample, expected));
  }
}

TEST_F(CudaCodecs, SealedPayloadsAreFlaggedLater) {
  for (const auto& sample : samples_of(600)) {
    SCOPED_TRACE(sample->name());
    Payload expected = sample->encoded(reference_);
    const Placed<std::byte> there(*place_, expected, 8);
    EXPECT_FALSE(is_flagged(*place_, there.view()));
    Status status;
    status.nonfinite = 1;
    const Placed<Status> device_status(*place_, {status});
    flag_payload(reference_, expected, view_of(status));
    flag_payload(*place_, there.view(), device_status.view());
    EXPECT_TRUE(same_bits(there.values(), expected));
    EXPECT_TRUE(same_status(device_status.values()[0], status));
  }
}

TEST_F(CudaCodecs, TheLowestRankWithAFlagIsNoted) {
  constexpr std::size_t kRanks = 300;  // more than one launch takes
  const std::vector<float> value{1.0F};
  for (const std::vector<std::size_t>& flagged : std::vector<std::vector<std::size_t>>{{}, {0}, {299}, {290, 70, 71}}) {
    for (const std::uint32_t noted : {0U, 5U, 71U, 72U, 400U}) {
      std::vector<Placed<std::byte>> payloads;
      std::vector<Payload> sent;
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        Status sender;
        sender.nonfinite = std::count(flagged.begin(), flagged.end(), rank) > 0 ? 1 : 0;
        Payload payload(dense::max_payload_bytes(1, ValueFormat::f32));
        dense::encode(reference_, value, ValueFormat::f32, payload, view_of(sender));
        payloads.emplace_back(*place_, payload);
        sent.push_back(payload);
      }
      const auto each = [&](const auto& body) {
        for (const auto& payload : payloads) body(View<const std::byte>(payload.view()));
      };
      const std::size_t lowest = flagged.empty() ? kRanks : *std::min_element(flagged.begin(), flagged.end());
      for (const bool only_if_none : {false, true}) {
        const Placed<Status> status(*place_, {Status{.nonfinite_rank = noted}});
        Status on_cpu{.nonfinite_rank = noted};
        note_flagged(*place_, each, 0, status.view(), only_if_none);
        const bool counts = lowest < kRanks && (noted == 0 || !only_if_none);
        EXPECT_EQ(status.values()[0].nonfinite, counts ? 1U : 0U);
        EXPECT_EQ(status.values()[0].nonfinite_rank, counts && (noted == 0 || lowest + 1 < noted) ? lowest + 1 : noted);
        const auto each_on_cpu = [&](const auto& body) {
          for (const Payload& payload : sent) body(View<const std::byte>(payload));
        };
        note_flagged(reference_, each_on_cpu, 0, view_of(on_cpu), only_if_none);
        EXPECT_EQ(status.values()[0].nonfinite_rank, on_cpu.nonfinite_rank);
        EXPECT_EQ(status.values()[0].nonfinite, on_cpu.nonfinite);
      }
    }
  }
}

/// More than are looked at in one wait, with one that is damaged or too short for a header.
TEST_F(CudaCodecs, ManyPayloadsAreOpenedUpToTheFirstFault) {
  constexpr std::size_t kPayloads = 70, kEntries = 50;
  for (const std::size_t wrong : {0UL, 5UL, 31UL, 32UL, 69UL, kPayloads}) {
    for (const bool is_short : {false, true}) {
      std::vector<Payload> payloads;
      std::vector<std::unique_ptr<Placed<std::byte>>> placed;
      std::vector<ReceivedRange> here, there;
      for (std::size_t i = 0; i < kPayloads; ++i) {
        Payload payload(dense::max_payload_bytes(kEntries, ValueFormat::f32));
        Status ignored;
        dense::encode(reference_, normal_values(kEntries, i), ValueFormat::f32, payload, view_of(ignored));
        if (i == wrong && is_short) payload.resize(12);
        if (i == wrong && !is_short) payload.back() ^= std::byte{1};
        payloads.push_back(std::move(payload));
        placed.push_back(std::make_unique<Placed<std::byte>>(*place_, payloads.back()));
      }
      for (const Payload& payload : payloads) here.push_back({payload, 7, 7 + kEntries});
      for (const auto& payload : placed) there.push_back({payload->view(), 7, 7 + kEntries});
      std::vector<ConstGradientView> expected(kPayloads), found(kPayloads);
      Status status;
      const Placed<Status> device_status(*place_, {{}});
      const auto take_here = [&](std::size_t i, ConstGradientView values) { expected[i] = values; };
      const auto take_there = [&](std::size_t i, ConstGradientView values) { found[i] = values; };
      const bool sound = dense::open(reference_, here, ValueFormat::f32, take_here, view_of(status));
      EXPECT_EQ(dense::open(*place_, there, ValueFormat::f32, take_there, device_status.view()), sound);
      EXPECT_EQ(sound, wrong == kPayloads);
      EXPECT_TRUE(same_status(device_status.values()[0], status)) << wrong;
      for (std::size_t i = 0; i < kPayloads; ++i) {
        EXPECT_EQ(expected[i].size(), i < wrong ? kEntries : 0) << i << ", wrong " << wrong;
        EXPECT_EQ(found[i].size(), expected[i].size()) << i << ", wrong " << wrong;
        if (i >= wrong) continue;
        EXPECT_EQ(static_cast<const void*>(found[i].data()), there[i].payload.data() + sizeof(PayloadHeader));
      }
    }
  }
}

/// The ranges of many owners, of different lengths, with one that is damaged: of which those before it are written.
TEST_F(CudaCodecs, ManyRangesAreDecodedUpToTheFirstFault) {
  const std::vector<std::uint64_t> sizes{20'000, 41, 30'000};
  const Layout layout{std::span<const std::uint64_t>(sizes)};
  const std::vector<float> values = normal_values(layout.size(), 3);
  const std::vector<float> norms{4.0F, 3.0F, 5.0F};
  constexpr std::uint64_t kRanges = 40;
  std::vector<std::uint64_t> borders(kRanges + 1);
  for (std::uint64_t i = 0; i <= kRanges; ++i) borders[i] = layout.cut(layout.size() * i * i / kRanges / kRanges, 512);
  enum class Kind { dense, sign, uniform };
  for (const Kind kind : {Kind::dense, Kind::sign, Kind::uniform}) {
    std::vector<Payload> payloads;
    for (std::uint64_t i = 0; i < kRanges; ++i) {
      const std::uint64_t begin = borders[i];
      const std::uint64_t end = borders[i + 1];
      const auto range = View<const float>(values).sub(begin, end - begin);
      Status ignored;
      if (kind == Kind::dense) {
        payloads.emplace_back(dense::max_payload_bytes(range.size(), ValueFormat::bf16));
        dense::encode(reference_, range, ValueFormat::bf16, payloads.back(), view_of(ignored));
      } else if (kind == Kind::sign) {
        payloads.emplace_back(sign::max_payload_bytes(layout, begin, end));
        sign::encode(reference_, range, layout, begin, end, payloads.back(), view_of(ignored));
      } else {
        payloads.emplace_back(uniform::max_payload_bytes(layout, begin, end, 5));
        uniform::encode(reference_, range, layout, begin, end, norms, 5, {.purpose = Purpose::rounding},
                        payloads.back(), view_of(ignored));
      }
    }
    for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{31}, std::uint64_t{32}, kRanges}) {
      struct Result {
        bool accepted;
        Status status;
        std::vector<float> values;
      };
      const auto decoded = [&](Place& place) {
        std::vector<std::unique_ptr<Placed<std::byte>>> placed;
        std::vector<ReceivedRange> ranges;
        for (std::uint64_t i = 0; i < kRanges; ++i) {
          Payload payload = payloads[i];
          if (i == wrong) payload[payload.size() / 2] ^= std::byte{8};
          placed.push_back(std::make_unique<Placed<std::byte>>(place, payload));
          ranges.push_back({placed.back()->view(), borders[i], borders[i + 1]});
        }
        const Placed<float> out(place, std::vector<float>(layout.size(), 7.0F));
        const Placed<Status> status(place, {{}});
        bool accepted = false;
        if (kind == Kind::dense) {
          accepted = dense::decode(place, ranges, ValueFormat::bf16, out.view(), status.view());
        } else if (kind == Kind::sign) {
          std::vector<View<const std::uint32_t>> words(kRanges);
          accepted = sign::open(place, ranges, layout, words, status.view());
          for (std::uint64_t i = 0; i < std::min(wrong, kRanges); ++i) {
            sign::unpack(place, words[i], layout, borders[i], borders[i + 1],
                         out.view().sub(borders[i], borders[i + 1] - borders[i]));
          }
          for (std::uint64_t i = wrong; i < kRanges; ++i) EXPECT_TRUE(words[i].empty());
        } else {
          accepted = uniform::decode(place, ranges, layout, 5, 2.0F, out.view(), status.view());
        }
        EXPECT_TRUE(out.intact());
        return Result{accepted, status.values()[0], out.values()};
      };
      const Result expected = decoded(reference_);
      const Result found = decoded(*place_);
      EXPECT_EQ(expected.accepted, wrong == kRanges) << wrong;
      EXPECT_EQ(found.accepted, expected.accepted) << wrong;
      EXPECT_TRUE(same_status(found.status, expected.status)) << wrong;
      EXPECT_TRUE(same_bits(found.values, expected.values)) << wrong;
      const std::uint64_t sound = borders[std::min(wrong, kRanges)];
      EXPECT_EQ(std::count(expected.values.begin(), expected.values.end(), 7.0F),
                static_cast<std::ptrdiff_t>(layout.size() - sound));
    }
  }
}

TEST_F(CudaCodecs, TruncatedPayloadsAreRefusedAlike) {
  for (const auto& sample : samples_of(40)) {
    SCOPED_TRACE(sample->name());
    const Payload payload = sample->encoded(reference_);
    for (std::size_t length = 0; length < payload.size(); length += 1 + length / 16) {
      if (left_out()) continue;
      const Payload cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
      ASSERT_TRUE(decodes_alike(*sample, cut)) << length;
    }
  }
}

TEST_F(CudaCodecs, ForeignHeadersAreRefusedAlike) {
  for (const std::size_t n : {40U, 1300U}) {
    for (const auto& sample : samples_of(n)) {
      SCOPED_TRACE(sample->name());
      const Payload sound = sample->encoded(reference_);
      const auto expect_alike = [&](std::size_t offset, auto value) {
        if (left_out(4)) return;
        Payload payload = sound;
        overwrite(payload, offset, value);
        EXPECT_TRUE(decodes_alike(*sample, payload)) << offset << ", checksum as it was";
        reseal(reference_, payload);
        EXPECT_TRUE(decodes_alike(*sample, payload)) << offset << ", checksum renewed";
      };
      expect_alike(offsetof(PayloadHeader, magic), std::uint32_t{0x12345678});
      expect_alike(offsetof(PayloadHeader, version), std::uint8_t{kWireVersion + 1});
      expect_alike(offsetof(PayloadHeader, codec), std::uint8_t{9});
      expect_alike(offsetof(PayloadHeader, format), std::uint8_t{77});
      for (unsigned flags = 0; flags < 16; ++flags) {
        expect_alike(offsetof(PayloadHeader, flags), static_cast<std::uint8_t>(flags));
      }
      const std::uint64_t length = sound.size();
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{31}, std::uint64_t{32}, std::uint64_t{36},
                                        length - 4, length - 1, length + 1, length + 4, ~std::uint64_t{3}}) {
        expect_alike(offsetof(PayloadHeader, payload_bytes), bytes);
      }
      expect_alike(offsetof(PayloadHeader, elements), ~std::uint64_t{0});
      std::uint32_t count = 0;
      std::memcpy(&count, sound.data() + offsetof(PayloadHeader, count), sizeof(count));
      for (const std::uint32_t other : {0U, 1U, count - 1, count + 1, 2 * count, 511U, ~0U, 0x80000000U}) {
        expect_alike(offsetof(PayloadHeader, count), other);
      }
      Payload longer = sound;
      longer.resize(longer.size() + 4);
      overwrite(longer, offsetof(PayloadHeader, payload_bytes), std::uint64_t{longer.size()});
      reseal(reference_, longer);
      EXPECT_TRUE(decodes_alike(*sample, longer));
    }
  }
  if (run_every() > 1) return;
  for (const PayloadFault fault :
       {PayloadFault::wrong_magic, PayloadFault::wrong_version, PayloadFault::wrong_codec, PayloadFault::wrong_length,
        PayloadFault::wrong_elements, PayloadFault::wrong_count, PayloadFault::wrong_format, PayloadFault::wrong_norm,
        PayloadFault::wrong_blocks, PayloadFault::wrong_checksum, PayloadFault::too_short}) {
    EXPECT_GT(outcomes_[static_cast<int>(fault)], 0) << payload_reason(fault);
  }
}

/// What a careful adversary sends: the checksum fits, the content may not.
TEST_F(CudaCodecs, FlippedBitsWithARenewedChecksumAreSeenAlike) {
  for (const std::size_t n : {40U, 600U, 1300U}) {
    for (const auto& sample : samples_of(n)) {
      SCOPED_TRACE(sample->name());
      Payload payload = sample->encoded(reference_);
      const std::size_t bits = payload.size() * 8;
      const std::size_t step = 1 + bits / 61;
      for (std::size_t bit = n % 7; bit < bits; bit += step) {
        if (left_out(8)) continue;
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        reseal(reference_, payload);
        ASSERT_TRUE(decodes_alike(*sample, payload)) << "bit " << bit;
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      }
      for (std::size_t back = 1; back <= 40 && back < bits - 256; ++back) {  // where filling may be
        if (left_out(8)) continue;
        const std::size_t bit = bits - back;
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        reseal(reference_, payload);
        ASSERT_TRUE(decodes_alike(*sample, payload)) << "bit " << bit;
        payload[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      }
    }
  }
  if (run_every() > 1) return;
  EXPECT_GT(outcomes_[static_cast<int>(PayloadFault::wrong_index)], 0);
  EXPECT_GT(outcomes_[static_cast<int>(PayloadFault::wrong_length)], 0);
  EXPECT_GT(outcomes_[static_cast<int>(PayloadFault::none)], 0);
}

// Layouts with more tensors than one launch's parameters hold.
TEST_F(CudaCodecs, AnyNumberOfTensors) {
  for (const std::size_t tensors : {1U, 32U, 33U, 65U, 130U}) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < tensors; ++i) sizes.push_back(i % 5 == 3 ? 0 : i % 11 == 0 ? 1500 : 1 + 13 * i % 70);
    const Layout layout(sizes);
    const std::uint64_t n = layout.size();
    const auto values = normal_values(n, 8);
    const Placed<float> placed(*place_, values, 1);
    for (const float odd : {1.0F, kInfinity, kNotANumber}) {
      std::vector<float> norms(tensors, 5.0F);
      norms[tensors / 2] = odd;
      const RandomStream stream{.seed = 1, .step = 2, .rank = 3, .tensor = 0, .purpose = Purpose::rounding};
      Payload expected(uniform::max_payload_bytes(layout, 0, n, 3));
      const Placed<std::byte> room(*place_, Payload(expected.size(), std::byte{0x77}));
      const Placed<float> placed_norms(*place_, norms, 2);
      Status status;
      const Placed<Status> device_status(*place_, {{}});
      uniform::encode(reference_, values, layout, 0, n, norms, 3, stream, expected, view_of(status), odd);
      uniform::encode(*place_, placed.view(), layout, 0, n, placed_norms.view(), 3, stream, room.view(),
                      device_status.view(), odd);
      EXPECT_TRUE(same_bits(room.values(), expected)) << tensors;
      EXPECT_TRUE(same_status(device_status.values()[0], status)) << tensors;
      float sender_norm = -1.0F;
      const Placed<float> sums(*place_, values);
      EXPECT_TRUE(
          uniform::decode_add(*place_, room.view(), layout, 0, n, 3, sums.view(), device_status.view(), &sender_norm));
      EXPECT_EQ(sender_norm, std::isfinite(odd) ? odd : 0.0F);

      for (std::size_t bit = 32 * 8 + 31; bit < expected.size() * 8; bit += 32) {  // signs of norms, filling, fields
        if (left_out(4)) continue;
        Payload wrong = expected;
        wrong[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        reseal(reference_, wrong);
        const Placed<std::byte> there(*place_, wrong);
        std::vector<float> out(n, 1.0F);
        const Placed<float> device_out(*place_, out);
        Status noted;
        const Placed<Status> device_noted(*place_, {{}});
        const bool accepted = uniform::decode_add(reference_, wrong, layout, 0, n, 3, out, view_of(noted));
        EXPECT_EQ(uniform::decode_add(*place_, there.view(), layout, 0, n, 3, device_out.view(), device_noted.view()),
                  accepted);
        ASSERT_TRUE(same_status(device_noted.values()[0], noted)) << bit;
        ASSERT_TRUE(same_bits(device_out.values(), out)) << bit;
        bit += expected.size() > 300 ? 32 * (expected.size() / 300) : 0;
      }
    }
  }
}

}  // namespace
}  // namespace laconic::test
