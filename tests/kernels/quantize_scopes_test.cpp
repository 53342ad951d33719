// Quantizing with a norm for each fixed scope, to the nearest level, and with the rest.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/bitpack/bitpack.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

const std::vector<std::uint64_t> kScopes{0, 64, 128, 256, 512, 1024, 65'536};

RandomStream stream_of_step(std::uint32_t step) {
  return {.seed = 0x1234'5678'9ABC'DEF0U, .step = step, .rank = 3, .tensor = 7, .purpose = Purpose::rounding};
}

Quantizer quantizer_of(int bits, std::uint64_t scope, Rounding kind, std::uint64_t first = 0) {
  return {.bits = bits, .rounding = stream_of_step(1), .first = first, .kind = kind, .scope = scope};
}

Place reference_place() { return Place({.threads = 1, .simd = SimdLevel::reference}); }

Floats largest_of_scopes(const Floats& values, std::uint64_t scope) {
  Floats norms(norms_of(values.size(), scope), 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& norm = norms[scope == 0 ? 0 : i / scope];
    norm = std::max(norm, std::fabs(values[i]));
  }
  return norms;
}

struct Quantized {
  Bytes packed;
  Floats rest;
};

Quantized quantized(Place& place, const Floats& values, const Floats& norms, const Quantizer& quantizer) {
  Quantized result{Bytes(quantized_bytes(values.size(), quantizer.bits), std::byte{0xEE}), Floats(values.size())};
  quantize(place, values, norms, quantizer, result.packed, result.rest);
  return result;
}

std::vector<std::uint32_t> fields_of(const Bytes& packed, int bits, std::size_t n) {
  Place place = reference_place();
  std::vector<std::uint32_t> fields(n);
  unpack_fields(place, packed, bits, fields);
  return fields;
}

Floats decoded(Place& place, const Bytes& packed, const Floats& norms, int bits, std::uint64_t scope, std::size_t n) {
  Floats values(n, 0.0F);
  dequantize_add(place, packed, norms, bits, values, scope);
  return values;
}

// What one norm for all gives with the norm of the entry's scope is what the entry must become.
TEST(QuantizeScopes, AnEntryIsQuantizedByTheNormOfItsScope) {
  Place place = reference_place();
  for (const int bits : {2, 4, 7}) {
    for (const std::uint64_t scope : {64ULL, 256ULL, 1024ULL}) {
      const Floats values = normal_values(2900, scope);
      const Floats norms = largest_of_scopes(values, scope);
      const Quantizer quantizer = quantizer_of(bits, scope, Rounding::stochastic, 2048);
      const auto fields = fields_of(quantized(place, values, norms, quantizer).packed, bits, values.size());
      for (std::size_t number = 0; number < norms.size(); ++number) {
        Quantizer alone = quantizer;
        alone.scope = 0;
        Bytes packed(quantized_bytes(values.size(), bits));
        quantize(place, values, {&norms[number], 1}, alone, packed);
        const auto expected = fields_of(packed, bits, values.size());
        for (std::size_t i = number * scope; i < std::min<std::size_t>((number + 1) * scope, values.size()); ++i) {
          ASSERT_EQ(fields[i], expected[i]) << "scope " << scope << " bits " << bits << " i " << i;
        }
      }
    }
  }
}

TEST(QuantizeScopes, NearestIsFloorOfAHalfMore) {
  Place place = reference_place();
  for (const int bits : {2, 3, 4, 8, 16}) {
    const auto s = static_cast<float>((1 << (bits - 1)) - 1);
    Floats values = normal_values(1500, static_cast<std::uint64_t>(bits));
    for (float& value : values) value = std::clamp(value, -3.9F, 3.9F);
    values[0] = -0.0F;
    for (std::size_t i = 1; i < 60; ++i) values[i] = static_cast<float>(i) * 2.0F / s * (i % 2 == 0 ? 1.0F : -1.0F);
    Floats norms(norms_of(values.size(), 256), 4.0F);  // a power of two: halves of a level are exact
    const Quantized result = quantized(place, values, norms, quantizer_of(bits, 256, Rounding::nearest));
    const auto fields = fields_of(result.packed, bits, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double r = std::min(std::fabs(values[i]) * (s / 4.0F), s);
      const auto level = static_cast<std::uint32_t>(std::floor(r + 0.5));
      const std::uint32_t sign = values[i] < 0.0F ? 1U << (bits - 1) : 0U;
      ASSERT_EQ(fields[i], level | sign) << "bits " << bits << " value " << values[i];
    }
  }
}

TEST(QuantizeScopes, TheRestIsTheValueLessWhatItDecodesTo) {
  Place place = reference_place();
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    for (const std::uint64_t scope : kScopes) {
      for (const int bits : {2, 4, 5}) {
        const Floats values = normal_values(2777, scope + 1);
        const Floats norms = largest_of_scopes(values, scope);
        const Quantized result = quantized(place, values, norms, quantizer_of(bits, scope, kind));
        const Floats sent = decoded(place, result.packed, norms, bits, scope, values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(result.rest[i], values[i] - sent[i]) << "scope " << scope << " bits " << bits << " i " << i;
          const float step = norms[scope == 0 ? 0 : i / scope] / static_cast<float>((1 << (bits - 1)) - 1);
          ASSERT_LE(std::fabs(result.rest[i]), step * (kind == Rounding::nearest ? 0.5001F : 1.0001F));
        }
      }
    }
  }
}

bool same(const Floats& found, const Floats& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    if (std::memcmp(&found[i], &expected[i], sizeof(float)) != 0) return false;
  }
  return found.size() == expected.size();
}

void expect_reference(const Floats& values, const Floats& norms, const Quantizer& quantizer) {
  Place reference = reference_place();
  const Quantized expected = quantized(reference, values, norms, quantizer);
  const std::size_t n = values.size();
  const Floats before = normal_values(n, 77);
  Floats sums = before;
  dequantize_add(reference, expected.packed, norms, quantizer.bits, sums, quantizer.scope);
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 3}) {
      const std::string where = std::string(simd_name(level)) + " threads " + std::to_string(threads) + " bits " +
                                std::to_string(quantizer.bits) + " scope " + std::to_string(quantizer.scope) + " n " +
                                std::to_string(n) + (quantizer.kind == Rounding::nearest ? " nearest" : "");
      Place place({.threads = threads, .simd = level});
      Guarded<float> input(values, n % 13);
      Guarded<std::byte> packed(expected.packed.size(), n % 7 + 1);
      Guarded<float> rest(n, n % 5);
      quantize(place, input.view(), norms, quantizer, packed.view(), rest.view());
      ASSERT_TRUE(packed.intact() && rest.intact()) << where;
      ASSERT_EQ(packed.values(), expected.packed) << where;
      ASSERT_TRUE(same(rest.values(), expected.rest)) << where;
      Guarded<std::byte> alone(expected.packed.size(), n % 7 + 1);
      quantize(place, input.view(), norms, quantizer, alone.view());
      ASSERT_EQ(alone.values(), expected.packed) << where << " without a rest";
      Guarded<float> added(before, n % 11);
      dequantize_add(place, packed.view(), norms, quantizer.bits, added.view(), quantizer.scope);
      ASSERT_TRUE(added.intact()) << where;
      ASSERT_EQ(added.values(), sums) << where;
    }
  }
}

TEST(QuantizeScopes, EveryLevelWritesTheReferencesBytes) {
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    for (const std::uint64_t scope : kScopes) {
      for (const std::size_t n : {0UL, 1UL, 63UL, 65UL, 511UL, 512UL, 513UL, 1025UL, 4099UL, 70'001UL, 200'000UL}) {
        for (int bits = 2; bits <= 16; ++bits) {
          if (n > 5000 && bits != 4) continue;
          if (n > 100'000 && scope != 256) continue;
          const Floats values = normal_values(n, n + 1);
          expect_reference(values, largest_of_scopes(values, scope), quantizer_of(bits, scope, kind, 65'536));
        }
      }
    }
  }
}

/// Values of which every fraction ties with its draw: the further bits decide, and the rest follows them.
TEST(QuantizeScopes, TiesAreSettledWithTheirRests) {
  for (const int bits : {3, 4, 9}) {
    for (const std::uint64_t scope : {64ULL, 256ULL, 2048ULL}) {
      const Quantizer quantizer = quantizer_of(bits, scope, Rounding::stochastic, 4096);
      const auto s = static_cast<float>((1 << (bits - 1)) - 1);
      Floats values(2048 + 99);
      Floats norms(norms_of(values.size(), scope));
      // The norms are s times powers of two, so that r is exact.
      for (std::size_t i = 0; i < norms.size(); ++i) norms[i] = s * (i % 2 == 0 ? 1.0F : 0.25F);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double fraction = (65535 - draw16(quantizer.rounding, quantizer.first + i)) / 65536.0;
        const double further = static_cast<double>(i % 64 * 4) / 0x1p24;
        values[i] = static_cast<float>(fraction + further + static_cast<double>(i % 3)) * (i % 5 == 0 ? -1.0F : 1.0F) *
                    norms[i / scope] / s;
      }
      expect_reference(values, norms, quantizer);
    }
  }
}

TEST(QuantizeScopes, ScopesWithoutANormBecomeZerosAndTheirValuesTheRest) {
  Floats values = normal_values(1500, 4);
  Floats norms = largest_of_scopes(values, 128);
  norms[1] = 0.0F;
  norms[4] = kNotANumber;
  norms[11] = -1.0F;  // in the last, short group
  values[140] = kNotANumber;
  values[150] = -kInfinity;
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    const Quantizer quantizer = quantizer_of(4, 128, kind);
    Place reference = reference_place();
    const Quantized result = quantized(reference, values, norms, quantizer);
    const auto fields = fields_of(result.packed, 4, values.size());
    for (const std::size_t scope : {1U, 4U, 11U}) {
      for (std::size_t i = scope * 128; i < std::min<std::size_t>(scope * 128 + 128, values.size()); ++i) {
        ASSERT_EQ(fields[i], 0U) << i;
        ASSERT_TRUE(result.rest[i] == values[i] || std::isnan(values[i])) << i;
      }
    }
    for (const SimdLevel level : available_levels()) {
      Place place({.threads = 1, .simd = level});
      const Quantized other = quantized(place, values, norms, quantizer);
      ASSERT_EQ(other.packed, result.packed) << simd_name(level);
      ASSERT_TRUE(same(other.rest, result.rest)) << simd_name(level);
    }
  }
}

TEST(QuantizeScopes, EveryLevelAgreesOnAwkwardValuesAndNorms) {
  for (const Rounding kind : {Rounding::stochastic, Rounding::nearest}) {
    for (const float size : {1.0F, 1e-42F, 1e-38F, 1e30F}) {
      Floats values = normal_values(1333, 5);
      for (float& value : values) value = value / 8.0F * size;
      values[3] = -0.0F;
      values[600] = -0.0F;
      expect_reference(values, largest_of_scopes(values, 64), quantizer_of(4, 64, kind));
      values[7] = kInfinity;
      values[8] = -kNotANumber;
      values[1300] = kNotANumber;
      expect_reference(values, Floats(norms_of(values.size(), 64), size), quantizer_of(5, 64, kind));
    }
  }
}

TEST(QuantizeScopes, NormsOfScopesAreThoseOfTheirViews) {
  for (const Norm kind : {Norm::l2, Norm::max}) {
    for (const std::uint64_t scope : {64ULL, 256ULL, 8192ULL, 16'384ULL, 65'536ULL}) {
      for (const std::size_t n : {0UL, 1UL, 64UL, 1000UL, 150'001UL}) {
        const Floats values = normal_values(n, scope);
        Place reference = reference_place();
        Floats expected(n == 0 ? 0 : norms_of(n, scope));
        Status status;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const std::size_t count = std::min<std::size_t>(scope, n - i * scope);
          norm(reference, View<const float>(values).sub(i * scope, count), kind, {&expected[i], 1}, view_of(status));
        }
        for (const SimdLevel level : available_levels()) {
          for (const int threads : {1, 3}) {
            Place place({.threads = threads, .simd = level});
            Guarded<float> norms(expected.size(), n % 3);
            Status found;
            scope_norms(place, values, scope, kind, norms.view(), view_of(found));
            ASSERT_TRUE(norms.intact());
            ASSERT_EQ(norms.values(), expected) << simd_name(level) << " scope " << scope << " n " << n;
            ASSERT_EQ(found.nonfinite, 0U);
          }
        }
        if (n < 1000) continue;
        Floats bad = values;
        bad[n - 2] = kNotANumber;
        Place place({.threads = 1});
        Floats norms(expected.size());
        Status found;
        scope_norms(place, bad, scope, kind, norms, view_of(found));
        EXPECT_EQ(found.nonfinite, 1U);
        EXPECT_TRUE(std::isnan(norms.back()));
      }
    }
  }
}

TEST(QuantizeScopes, RefusesBadScopes) {
  Place place({.threads = 1});
  const Floats values(1000);
  Floats norms(4);
  Bytes packed(500);
  for (const std::uint64_t scope : {1ULL, 32ULL, 300ULL, 131'072ULL}) {
    const auto text = message_of<InvalidConfig>(
        [&] { quantize(place, values, norms, quantizer_of(4, scope, Rounding::nearest), packed); });
    EXPECT_TRUE(contains(text, "power of two in 64..65536 entries, got " + std::to_string(scope))) << text;
    Status status;
    EXPECT_THROW(scope_norms(place, values, scope, Norm::max, norms, view_of(status)), InvalidConfig);
  }
  const auto few = message_of<InvalidConfig>(
      [&] { quantize(place, values, norms, quantizer_of(4, 128, Rounding::nearest), packed); });
  EXPECT_TRUE(contains(few, "norms has 4 entries, expected 8")) << few;
  norms.resize(1);
  const auto first = message_of<InvalidConfig>(
      [&] { quantize(place, values, norms, quantizer_of(4, 1024, Rounding::nearest, 512), packed); });
  EXPECT_TRUE(contains(first, "multiple of 1024, got 512")) << first;
  Floats rest(999);
  const auto size = message_of<InvalidConfig>(
      [&] { quantize(place, values, norms, quantizer_of(4, 1024, Rounding::nearest), packed, rest); });
  EXPECT_TRUE(contains(size, "rest has 999 entries, expected 1000")) << size;
}

TEST(QuantizeScopes, DoesNotAllocate) {
  for (const SimdLevel level : available_levels()) {
    Place place({.threads = 2, .simd = level});
    Floats values = normal_values(100'000, 1);
    Floats norms(norms_of(values.size(), 256));
    Floats rest(values.size());
    Bytes packed(quantized_bytes(values.size(), 4));
    Status status;
    const auto before = allocation_count();
    for (const Norm kind : {Norm::max, Norm::l2}) scope_norms(place, values, 256, kind, norms, view_of(status));
    quantize(place, values, norms, quantizer_of(4, 256, Rounding::nearest), packed, rest);
    dequantize_add(place, packed, norms, 4, values, 256);
    EXPECT_EQ(allocation_count(), before) << simd_name(level);
  }
}

/// A payload of two sections: norms of both, then the fields of both.
struct Message {
  Bytes bytes;
  std::vector<DequantizeSection> sections;  ///< without values
};

Message message_of_two(const Floats& values, std::size_t cut, int bits, std::uint64_t scope) {
  Place place = reference_place();
  const std::vector<Floats> slices{{values.begin(), values.begin() + static_cast<std::ptrdiff_t>(cut)},
                                   {values.begin() + static_cast<std::ptrdiff_t>(cut), values.end()}};
  Message message{Bytes(32), {}};  // as behind a header
  const auto append = [&](const void* data, std::size_t bytes) {
    const std::size_t offset = message.bytes.size();
    message.bytes.resize(offset + (bytes + 3) / 4 * 4);
    if (bytes != 0) std::memcpy(message.bytes.data() + offset, data, bytes);
    return offset;
  };
  for (const Floats& slice : slices) {
    const Floats norms = largest_of_scopes(slice, scope);
    message.sections.push_back({append(norms.data(), norms.size() * sizeof(float)), 0, {}});
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto packed = quantized(place, slices[i], largest_of_scopes(slices[i], scope),
                                  quantizer_of(bits, scope, Rounding::nearest)).packed;
    message.sections[i].fields_offset = append(packed.data(), packed.size());
  }
  return message;
}

/// The payloads, one after another, added to sums that begin with -0: what dequantize_sum must give.
Floats added_in_order(const std::vector<Message>& messages, std::size_t n, std::size_t cut, int bits,
                      std::uint64_t scope) {
  Place place = reference_place();
  Floats sums(n, -0.0F);
  for (const Message& message : messages) {
    for (std::size_t i = 0; i < 2; ++i) {
      const View<float> part = View<float>(sums).sub(i == 0 ? 0 : cut, i == 0 ? cut : n - cut);
      Floats norms(norms_of(part.size(), scope));
      std::memcpy(norms.data(), message.bytes.data() + message.sections[i].norms_offset, norms.size() * sizeof(float));
      const auto packed = View<const std::byte>(message.bytes)
                              .sub(message.sections[i].fields_offset, quantized_bytes(part.size(), bits));
      dequantize_add(place, packed, norms, bits, part, scope);
    }
  }
  return sums;
}

TEST(QuantizeScopes, TheSumOfPayloadsIsThatOfAddingThemInOrder) {
  for (const std::uint64_t scope : {0ULL, 64ULL, 512ULL, 65'536ULL}) {
    for (const int bits : {2, 3, 4, 8, 11}) {
      for (const std::size_t n : {1UL, 700UL, 20'001UL}) {
        const std::size_t cut = n == 1 ? 0 : n / 3;
        for (const std::size_t ranks : {1UL, 2UL, 9UL}) {
          std::vector<Message> messages;
          for (std::size_t rank = 0; rank < ranks; ++rank) {
            messages.push_back(message_of_two(normal_values(n, 10 * rank + scope), cut, bits, scope));
          }
          Floats expected = added_in_order(messages, n, cut, bits, scope);
          const float divisor = ranks == 1 ? 1.0F : 3.0F;
          for (float& sum : expected) sum = sum / divisor;
          std::vector<View<const std::byte>> payloads;
          for (const Message& message : messages) payloads.emplace_back(message.bytes);
          for (const SimdLevel level : available_levels()) {
            Place place({.threads = 2, .simd = level});
            Guarded<float> sums(Floats(n, kNotANumber), n % 11);
            const auto sections = [&](const auto& body) {
              for (std::size_t i = 0; i < 2; ++i) {
                DequantizeSection section = messages[0].sections[i];
                section.values = sums.view().sub(i == 0 ? 0 : cut, i == 0 ? cut : n - cut);
                body(section);
              }
            };
            Status status;
            dequantize_sum(place, payloads, sections, bits, scope, divisor, view_of(status));
            ASSERT_EQ(status.nonfinite, 0U);
            ASSERT_TRUE(sums.intact());
            ASSERT_TRUE(same(sums.values(), expected))
                << simd_name(level) << " scope " << scope << " bits " << bits << " n " << n << " ranks " << ranks;
          }
        }
      }
    }
  }
}

TEST(QuantizeScopes, SumsRefuseSectionsBehindThePayloadsEnd) {
  Place place({.threads = 1});
  Floats values(600);
  const Bytes payload(4 + quantized_bytes(600, 8) - 1);
  const std::vector<View<const std::byte>> payloads{View<const std::byte>(payload)};
  Status status;
  const auto sum = [&](std::span<const View<const std::byte>> of) {
    dequantize_sum(place, of, just(DequantizeSection{0, 4, values}), 8, 0, 1.0F, view_of(status));
  };
  const auto text = message_of<InvalidConfig>([&] { sum(payloads); });
  EXPECT_TRUE(contains(text, "payload has 603 entries, expected at least 604")) << text;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([&] { sum({}); }), "payloads has 0 entries"));
}

TEST(QuantizeScopes, ASumThatOverflowsIsFlagged) {
  Place place({.threads = 1});
  const float norm = 3e38F;
  Bytes payload(sizeof(float) + quantized_bytes(1, 8));
  std::memcpy(payload.data(), &norm, sizeof(norm));
  payload.back() = std::byte{0x7F};  // the highest level
  const std::vector<View<const std::byte>> payloads(2, View<const std::byte>(payload));
  Floats values(1);
  Status status;
  dequantize_sum(place, payloads, just(DequantizeSection{0, 4, values}), 8, 0, 2.0F, view_of(status));
  EXPECT_EQ(status.nonfinite, 1U);
}

}  // namespace
}  // namespace laconic::test
