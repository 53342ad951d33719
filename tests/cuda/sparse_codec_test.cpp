// Sparse payloads on a device against the CPU's: the same bytes, the same decoded lists and the same faults.

#include <map>
#include <memory>

#include "codecs/sparse.h"
#include "cuda/codecs_fixture.h"

namespace laconic::test {
namespace {

class CudaSparse : public CudaCodecs {
 protected:
  struct Encoded {
    Payload payload;
    Status status;
  };

  Encoded encoded(Place& place, const std::vector<std::uint32_t>& indices, sparse::IndexRange range, ValueFormat format,
                  float extra = 0.0F) {
    const auto values = awkward_values(indices.size(), 3, extra);
    const Placed<std::uint32_t> placed_indices(place, indices, 1);
    const Placed<float> placed_values(place, values, 3);
    const std::uint64_t most = sparse::max_payload_bytes(indices.size(), range.size, format);
    const Placed<std::byte> room(place, Payload(most, std::byte{0x77}), 12);
    const Placed<Status> status(place, {{}});
    sparse::encode(place, ConstSparseView{placed_indices.view(), placed_values.view()}, range, format, room.view(),
                   status.view());
    EXPECT_TRUE(room.intact() && status.intact());
    Encoded result{room.values(), status.values()[0]};
    result.payload.resize(result.status.payload_bytes);
    return result;
  }

  struct Decoded {
    bool accepted;
    Status status;
    std::uint64_t count;
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
  };

  struct ManyDecoded {
    bool accepted;
    Status status;
    std::vector<std::uint64_t> counts;
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
  };

  static std::vector<std::uint32_t> range_of_indices(sparse::IndexRange range, std::size_t count) {
    std::vector<std::uint32_t> indices;
    for (std::size_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<std::uint32_t>(range.first + i * i % 7 + i * (range.size / 100)));
    }
    return indices;
  }

  /// Values that any format has: of one magnitude.
  Payload encoded_list(const std::vector<std::uint32_t>& indices, sparse::IndexRange range, ValueFormat format) {
    std::vector<float> values;
    for (const std::uint32_t index : indices) values.push_back(index % 3 == 0 ? -2.5F : 2.5F);
    Payload payload(sparse::max_payload_bytes(indices.size(), range.size, format));
    Status status;
    sparse::encode(reference_, {View<const std::uint32_t>(indices), View<const float>(values)}, range, format, payload,
                   view_of(status));
    payload.resize(status.payload_bytes);
    return payload;
  }

  Decoded decoded(Place& place, const Payload& payload, sparse::IndexRange range, ValueFormat format,
                  std::size_t capacity) {
    const Placed<std::byte> there(place, payload, 4);
    const Placed<std::uint32_t> indices(place, std::vector<std::uint32_t>(capacity), 3);
    const Placed<float> values(place, std::vector<float>(capacity), 5);
    const Placed<Status> status(place, {{}});
    Decoded result{};
    sparse::ReceivedList list{there.view(), range, {indices.view(), values.view()}};
    result.accepted = sparse::decode(place, {&list, 1}, format, status.view());
    result.count = list.count;
    EXPECT_TRUE(indices.intact() && values.intact());
    result.status = status.values()[0];
    EXPECT_EQ(result.count, result.status.count);
    result.indices = indices.values();
    result.values = values.values();
    result.indices.resize(result.count);
    return result;
  }

  void expect_alike(const std::vector<std::uint32_t>& indices, sparse::IndexRange range, ValueFormat format,
                    float extra = 0.0F) {
    const Encoded expected = encoded(reference_, indices, range, format, extra);
    const Encoded found = encoded(*place_, indices, range, format, extra);
    EXPECT_TRUE(same_bits(found.payload, expected.payload));
    EXPECT_TRUE(same_status(found.status, expected.status));
    ++codings_[std::to_integer<int>(expected.payload[7]) >> 1 & 3];
    for (const std::size_t capacity : {indices.size(), indices.size() + 1000, indices.size() / 2}) {
      const Decoded sound = decoded(reference_, expected.payload, range, format, capacity);
      const Decoded there = decoded(*place_, expected.payload, range, format, capacity);
      EXPECT_EQ(there.accepted, sound.accepted);
      EXPECT_TRUE(same_status(there.status, sound.status));
      EXPECT_TRUE(same_bits(there.indices, sound.indices));
      EXPECT_TRUE(same_bits(there.values, sound.values));
    }
  }

  std::map<int, int> codings_;
};

TEST_F(CudaSparse, ListsOfEveryKind) {
  constexpr std::uint64_t kLast = std::uint64_t{1} << 32;
  for (const ValueFormat format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    for (const std::size_t n : {0U, 1U, 2U, 3U, 511U, 512U, 513U, 1024U, 1025U, 3000U}) {
      for (const std::uint32_t gap : {1U, 2U, 5U, 31U, 32U, 33U, 100U, 70'000U}) {
        if (left_out()) continue;
        SCOPED_TRACE(std::to_string(n) + " by " + std::to_string(gap) + " " + format_name(format));
        std::vector<std::uint32_t> indices(n);
        for (std::size_t i = 0; i < n; ++i) indices[i] = 9 + static_cast<std::uint32_t>(i) * gap;
        const std::uint64_t size = std::uint64_t{n} * gap + 1;
        expect_alike(indices, {9, size}, format);  // gaps of one width
        expect_alike(indices, {0, kLast}, format);
        for (std::size_t i = 600; i < n; ++i) indices[i] += 1'000'000;  // one wide group among narrow ones
        expect_alike(indices, {9, size + 1'000'000}, format);
      }
    }
  }
  if (run_every() > 1) return;
  for (const int coding : {0, 1, 2}) EXPECT_GT(codings_[coding], 0) << coding;
}

TEST_F(CudaSparse, IndicesAtTheEndOfTheirSpace) {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xFFFF'F000}}) {
    const std::uint64_t size = (std::uint64_t{1} << 32) - first;
    expect_alike({0xFFFF'FFFF}, {first, size}, ValueFormat::f32);
    expect_alike({static_cast<std::uint32_t>(first), 0xFFFF'FFFE, 0xFFFF'FFFF}, {first, size}, ValueFormat::f16);
  }
}

TEST_F(CudaSparse, ValuesThatAreNotFinite) {
  std::vector<std::uint32_t> indices(700);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::uint32_t>(3 * i);
  for (const ValueFormat format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    for (const float extra : kExtras) expect_alike(indices, {0, 3000}, format, extra);
  }
}

TEST_F(CudaSparse, WrongIndicesAreNotedAndRefusedByReceivers) {
  for (const bool dense : {false, true}) {
    std::vector<std::uint32_t> sound(1500);
    for (std::size_t i = 0; i < sound.size(); ++i) sound[i] = 100 + static_cast<std::uint32_t>(i) * (dense ? 1 : 9);
    const sparse::IndexRange range{100, dense ? 1600U : 20'000U};
    const std::vector<std::pair<std::size_t, std::uint32_t>> wrongs{
        {0, 99}, {0, 100'000}, {700, sound[699]}, {700, sound[699] - 1}, {1499, 100'000}, {1499, 0xFFFF'FFFF}};
    for (const auto& [position, index] : wrongs) {
      auto indices = sound;
      indices[position] = index;
      const Encoded found = encoded(*place_, indices, range, ValueFormat::f32);
      EXPECT_EQ(found.status.fault, PayloadFault::wrong_index) << position << ": " << index;
      EXPECT_EQ(std::to_integer<int>(found.payload[7]) >> 1 & 3, 3);
      EXPECT_EQ(found.status.fault_found, position) << index;
      EXPECT_EQ(found.status.fault_expected, indices.size());
      EXPECT_FALSE(decoded(reference_, found.payload, range, ValueFormat::f32, indices.size()).accepted);
      EXPECT_FALSE(decoded(*place_, found.payload, range, ValueFormat::f32, indices.size()).accepted);
    }
  }
}

/// More than are looked at in one wait, of different lengths, with one that is damaged, too short for a header, or
/// longer than its room.
TEST_F(CudaSparse, ManyListsAreDecodedUpToTheFirstFault) {
  constexpr std::size_t kLists = 40;
  enum class Wrong { bits, too_short, too_long };
  for (const ValueFormat format : {ValueFormat::f32, ValueFormat::bf16, ValueFormat::sign}) {
    for (const std::size_t wrong : {std::size_t{0}, std::size_t{31}, std::size_t{32}, kLists}) {
      for (const Wrong kind : {Wrong::bits, Wrong::too_short, Wrong::too_long}) {
        const auto decode_all = [&](Place& place) {
          std::vector<std::unique_ptr<Placed<std::byte>>> payloads;
          std::vector<std::unique_ptr<Placed<std::uint32_t>>> indices;
          std::vector<std::unique_ptr<Placed<float>>> values;
          std::vector<sparse::ReceivedList> lists;
          for (std::size_t i = 0; i < kLists; ++i) {
            const sparse::IndexRange range{1000 * i, 1000};
            const auto own = range_of_indices(range, i * 11 % 90);
            Payload payload = encoded_list(own, range, format);
            if (i == wrong && kind == Wrong::bits) payload.back() ^= std::byte{1};
            if (i == wrong && kind == Wrong::too_short) payload.resize(12);
            const std::size_t room =
                i == wrong && kind == Wrong::too_long && !own.empty() ? own.size() - 1 : own.size();
            payloads.push_back(std::make_unique<Placed<std::byte>>(place, payload));
            indices.push_back(std::make_unique<Placed<std::uint32_t>>(place, std::vector<std::uint32_t>(room)));
            values.push_back(std::make_unique<Placed<float>>(place, std::vector<float>(room)));
            lists.push_back({payloads.back()->view(), range, {indices.back()->view(), values.back()->view()}});
          }
          const Placed<Status> status(place, {{}});
          ManyDecoded result{sparse::decode(place, lists, format, status.view()), status.values()[0], {}, {}, {}};
          for (std::size_t i = 0; i < kLists; ++i) {
            EXPECT_TRUE(indices[i]->intact() && values[i]->intact());
            result.counts.push_back(lists[i].count);
            const auto add = [&](auto& all, const auto& some) {
              all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(lists[i].count));
            };
            add(result.indices, indices[i]->values());
            add(result.values, values[i]->values());
          }
          return result;
        };
        const ManyDecoded expected = decode_all(reference_);
        const ManyDecoded found = decode_all(*place_);
        const bool sound = wrong == kLists || (kind == Wrong::too_long && wrong == 0);  // the first list is empty
        EXPECT_EQ(expected.accepted, sound) << wrong;
        EXPECT_EQ(found.accepted, expected.accepted) << wrong;
        EXPECT_TRUE(same_status(found.status, expected.status)) << wrong;
        EXPECT_EQ(expected.status.count, sound ? expected.indices.size() : 0);
        EXPECT_EQ(found.counts, expected.counts);
        EXPECT_EQ(found.indices, expected.indices);
        EXPECT_TRUE(same_bits(found.values, expected.values));
        for (std::size_t i = 0; i < kLists; ++i) {
          EXPECT_EQ(expected.counts[i], sound || i < wrong ? i * 11 % 90 : 0) << i << ", wrong " << wrong;
        }
      }
    }
  }
}

}  // namespace
}  // namespace laconic::test
