#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/topk/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/topk/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = HWY_CAPPED(float, 16);
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;

constexpr std::size_t kLanes = hn::MaxLanes(Floats());
constexpr std::size_t kGroup = 64;  // entries whose candidates are one 64-bit mask
static_assert(kGroup % kLanes == 0);

/// A mask as bits, lane 0 lowest.
template <class D, class M>
HWY_INLINE std::uint64_t bits_of(D d, M mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  if constexpr (kLanes <= 8) return bytes[0];
  std::uint16_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

template <bool kAdd>
std::size_t Scan(const simd::ScanBlock& block, std::int32_t& highest) {
  const Floats df;
  const Ints di;
  const auto magnitude = hn::Set(di, 0x7FFF'FFFF);
  const auto candidate = hn::Set(di, block.bounds.candidate);
  const std::int32_t zero = block.bounds.zero;
  float* HWY_RESTRICT rest = block.rest;
  auto most = hn::Set(di, highest);
  std::size_t count = 0;

  const auto store_candidate = [&](std::size_t i) HWY_ATTR {
    const float value = rest[i];
    block.indices[count] = block.first_index + static_cast<std::uint32_t>(i);
    block.values[count] = std::bit_cast<std::uint32_t>(value);
    ++count;
    rest[i] = static_cast<std::int32_t>(topk::key_of(value)) > zero ? 0.0F : value;
  };

  std::size_t i = 0;
  for (; i + kGroup <= block.size; i += kGroup) {
    std::uint64_t found = 0;
    for (std::size_t j = 0; j < kGroup; j += kLanes) {
      const auto a = kAdd ? hn::Add(hn::LoadU(df, block.gradient + i + j), hn::LoadU(df, block.residual + i + j))
                          : hn::LoadU(df, rest + i + j);
      const auto key = hn::And(hn::BitCast(di, a), magnitude);
      most = hn::Max(most, key);
      if constexpr (kAdd) hn::StoreU(a, df, rest + i + j);
      found |= bits_of(di, hn::Gt(key, candidate)) << j;
    }
    for (; found != 0; found &= found - 1) store_candidate(i + static_cast<std::size_t>(std::countr_zero(found)));
  }
  highest = hn::GetLane(hn::MaxOfLanes(di, most));
  for (; i < block.size; ++i) {
    if constexpr (kAdd) rest[i] = block.gradient[i] + block.residual[i];
    const auto key = static_cast<std::int32_t>(topk::key_of(rest[i]));
    highest = std::max(highest, key);
    if (key > block.bounds.candidate) store_candidate(i);
  }
  return count;
}

std::size_t ScanAdd(const simd::ScanBlock& block, std::int32_t& highest) { return Scan<true>(block, highest); }
std::size_t ScanAgain(const simd::ScanBlock& block, std::int32_t& highest) { return Scan<false>(block, highest); }

std::size_t GatherBetween(const std::uint32_t* keys, std::size_t n, std::uint32_t low, std::uint32_t high,
                          std::uint32_t* members) {
  const Words du;
  const Ints di;
  const auto magnitude = hn::Set(du, 0x7FFF'FFFFU);
  // key in [low, high], for keys below 2^31.
  const auto below_low = hn::Set(di, static_cast<std::int32_t>(low) - 1);
  const auto top = hn::Set(di, static_cast<std::int32_t>(high));
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto key = hn::BitCast(di, hn::And(hn::LoadU(du, keys + i), magnitude));
    const auto inside = hn::AndNot(hn::VecFromMask(di, hn::Gt(key, top)), hn::VecFromMask(di, hn::Gt(key, below_low)));
    for (std::uint64_t found = bits_of(di, hn::MaskFromVec(inside)); found != 0; found &= found - 1) {
      members[count++] = keys[i + static_cast<std::size_t>(std::countr_zero(found))] & 0x7FFF'FFFFU;
    }
  }
  for (; i < n; ++i) {
    const std::uint32_t key = keys[i] & 0x7FFF'FFFFU;
    if (key >= low && key <= high) members[count++] = key;
  }
  return count;
}

void EmitPart(const simd::EmitPart& emit) {
  const topk::Part& part = *emit.part;
  const Ints di;
  const Words du;
  const auto magnitude = hn::Set(du, 0x7FFF'FFFFU);
  const auto threshold = hn::Set(di, static_cast<std::int32_t>(emit.threshold));
  const auto zero = hn::Set(di, part.bounds.zero);
  std::size_t equals_left = part.equal;
  std::size_t written = 0;

  const auto take = [&](std::size_t i) HWY_ATTR {
    emit.indices[written] = part.indices[i];
    emit.values[written] = std::bit_cast<float>(part.values[i]);
    ++written;
  };
  const auto repair = [&](std::size_t i, bool selected) HWY_ATTR {
    emit.rest[part.indices[i]] = selected ? 0.0F : std::bit_cast<float>(part.values[i]);
  };

  std::size_t i = 0;
  for (; i + kLanes <= part.count; i += kLanes) {
    const auto key = hn::BitCast(di, hn::And(hn::LoadU(du, part.keys + i), magnitude));
    const auto size = hn::BitCast(di, hn::And(hn::LoadU(du, part.values + i), magnitude));
    std::uint64_t selected = bits_of(di, hn::Gt(key, threshold));
    const std::uint64_t zeroed = bits_of(di, hn::Gt(size, zero));
    for (std::uint64_t equal = bits_of(di, hn::Eq(key, threshold)); equal != 0 && equals_left > 0; equal &= equal - 1) {
      selected |= equal & (~equal + 1);
      --equals_left;
    }
    for (std::uint64_t wrong = selected ^ zeroed; wrong != 0; wrong &= wrong - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(wrong));
      repair(i + lane, (selected >> lane & 1) != 0);
    }
    for (; selected != 0; selected &= selected - 1) take(i + static_cast<std::size_t>(std::countr_zero(selected)));
  }
  for (; i < part.count; ++i) {
    const std::uint32_t key = part.keys[i] & 0x7FFF'FFFFU;
    bool selected = key > emit.threshold;
    if (key == emit.threshold && equals_left > 0) {
      selected = true;
      --equals_left;
    }
    const bool zeroed = static_cast<std::int32_t>(part.values[i] & 0x7FFF'FFFFU) > part.bounds.zero;
    if (selected != zeroed) repair(i, selected);
    if (selected) take(i);
  }
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic {
HWY_EXPORT(ScanAdd);
HWY_EXPORT(ScanAgain);
HWY_EXPORT(GatherBetween);
HWY_EXPORT(EmitPart);
}  // namespace laconic

namespace laconic::simd {

std::size_t scan_add(SimdLevel level, const ScanBlock& block, std::int32_t& highest) {
  return LACONIC_SIMD_CALL(level, ScanAdd)(block, highest);
}

std::size_t scan_again(SimdLevel level, const ScanBlock& block, std::int32_t& highest) {
  return LACONIC_SIMD_CALL(level, ScanAgain)(block, highest);
}

std::size_t gather_between(SimdLevel level, const std::uint32_t* keys, std::size_t n, std::uint32_t low,
                           std::uint32_t high, std::uint32_t* members) {
  return LACONIC_SIMD_CALL(level, GatherBetween)(keys, n, low, high, members);
}

void emit_part(SimdLevel level, const EmitPart& emit) { LACONIC_SIMD_CALL(level, EmitPart)(emit); }

}  // namespace laconic::simd
#endif
