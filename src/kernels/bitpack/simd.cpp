#include "kernels/bitpack/bitpack.h"
#include "kernels/bitpack/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bitpack/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // has no vectors to look at as bytes: all is left to the reference's loop

std::size_t pack_groups(View<const std::uint32_t>, int, std::byte*) { return 0; }
std::size_t unpack_groups(const std::byte*, int, View<std::uint32_t>) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;

using Words = HWY_CAPPED(std::uint32_t, 16);
using Bytes = hn::Repartition<std::uint8_t, Words>;

// Payloads may lie at any byte, so words are moved as bytes.
HWY_INLINE auto load_words(const std::byte* from) {
  return hn::BitCast(Words(), hn::LoadU(Bytes(), reinterpret_cast<const std::uint8_t*>(from)));
}
template <class V>
HWY_INLINE void store_words(V words, std::byte* to) {
  hn::StoreU(hn::BitCast(Bytes(), words), Bytes(), reinterpret_cast<std::uint8_t*>(to));
}

constexpr std::size_t kWordRow = kPackLanes * sizeof(std::uint32_t);

// One vector of lanes of a group, whose first stands at `fields` and at `packed`. bits > 0.
HWY_INLINE void pack_lanes(const std::uint32_t* fields, int bits, std::byte* packed) {
  const Words d;
  const auto mask = hn::Set(d, static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1));
  auto word = hn::Zero(d);
  int filled = 0;
  for (std::size_t row = 0; row < kPackGroup; row += kPackLanes) {
    const auto field = hn::And(hn::LoadU(d, fields + row), mask);
    word = hn::Or(word, hn::ShiftLeftSame(field, filled));
    filled += bits;
    if (filled >= 32) {
      store_words(word, packed);
      packed += kWordRow;
      filled -= 32;
      word = filled == 0 ? hn::Zero(d) : hn::ShiftRightSame(field, bits - filled);
    }
  }
}

HWY_INLINE void unpack_lanes(const std::byte* packed, int bits, std::uint32_t* fields) {
  const Words d;
  const auto mask = hn::Set(d, static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1));
  auto word = hn::Zero(d);
  int left = 0;  // bits of `word` that are not yet used
  for (std::size_t row = 0; row < kPackGroup; row += kPackLanes) {
    auto field = left == 0 ? hn::Zero(d) : hn::ShiftRightSame(word, 32 - left);
    if (left < bits) {
      word = load_words(packed);
      packed += kWordRow;
      field = hn::Or(field, hn::ShiftLeftSame(word, left));
      left += 32;
    }
    left -= bits;
    hn::StoreU(hn::And(field, mask), d, fields + row);
  }
}

std::size_t pack_groups(View<const std::uint32_t> fields, int bits, std::byte* packed) {
  const std::size_t lanes = hn::Lanes(Words());
  std::size_t done = 0;
  for (; fields.size() - done >= kPackGroup; done += kPackGroup) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      pack_lanes(fields.data() + done + lane, bits, packed + packed_bytes(done, bits) + lane * sizeof(std::uint32_t));
    }
  }
  return done;
}

std::size_t unpack_groups(const std::byte* packed, int bits, View<std::uint32_t> fields) {
  const std::size_t lanes = hn::Lanes(Words());
  std::size_t done = 0;
  for (; fields.size() - done >= kPackGroup; done += kPackGroup) {
    for (std::size_t lane = 0; lane < kPackLanes; lane += lanes) {
      unpack_lanes(packed + packed_bytes(done, bits) + lane * sizeof(std::uint32_t), bits, fields.data() + done + lane);
    }
  }
  return done;
}

#endif

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

// The plain stream behind the last full group is short: the reference's loop serves every level.

void pack_fields(SimdLevel level, View<const std::uint32_t> fields, int bits, std::byte* packed) {
  const std::size_t done = bits == 0 ? 0 : LACONIC_SIMD_CALL(level, pack_groups)(fields, bits, packed);
  reference::pack_fields(fields.sub(done, fields.size() - done), bits, packed + packed_bytes(done, bits));
}

void unpack_fields(SimdLevel level, const std::byte* packed, int bits, View<std::uint32_t> fields) {
  const std::size_t done = bits == 0 ? 0 : LACONIC_SIMD_CALL(level, unpack_groups)(packed, bits, fields);
  reference::unpack_fields(packed + packed_bytes(done, bits), bits, fields.sub(done, fields.size() - done));
}

}  // namespace laconic::simd
#endif
