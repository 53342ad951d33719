#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/clones.h"
#include "kernels/residual.h"
#include "kernels/topk/loops.h"

namespace laconic::portable {
namespace {

using topk::EmitSection;
using topk::GatherKeys;
using topk::kBlock;
using topk::Section;
using topk::ScanBlock;

constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
static_assert(std::endian::native == std::endian::little, "the first of eight flags is a word's lowest byte");

LACONIC_INLINE std::int32_t key_at(const float* values, std::size_t i) {
  return std::bit_cast<std::int32_t>(values[i]) & 0x7FFF'FFFF;
}

/// Three loops over a block that stays in the first cache. The first two have no branch and become vectors; the third
/// looks at eight entries at once and stops only at candidates.
template <bool kAdd>
LACONIC_INLINE std::size_t scan(const ScanBlock& block, std::int32_t& highest) {
  const std::size_t n = block.size;
  const float* gradient = block.gradient;
  const float* residual = block.residual;
  float* rest = block.rest;  // may be `residual`
  std::int32_t most = 0;
  if constexpr (kAdd) {
    LACONIC_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) {
      rest[i] = with_residual(gradient[i], residual[i]);
      most = std::max(most, key_at(rest, i));
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) most = std::max(most, key_at(rest, i));
  }
  highest = std::max(highest, most);
  const auto [candidate, zero] = block.bounds;
  if (most <= candidate) return 0;

  std::array<std::uint8_t, kBlock + sizeof(std::uint64_t)> flags;  // 1 for a candidate
  for (std::size_t i = 0; i < n; ++i) flags[i] = key_at(rest, i) > candidate ? 1 : 0;
  std::memset(flags.data() + n, 0, sizeof(std::uint64_t));
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < n; begin += sizeof(std::uint64_t)) {
    std::uint64_t found = 0;
    std::memcpy(&found, flags.data() + begin, sizeof(found));
    for (; found != 0; found &= found - 1) {
      const std::size_t i = begin + static_cast<std::size_t>(std::countr_zero(found)) / 8;
      const float value = rest[i];
      block.indices[count] = block.first_index + static_cast<std::uint32_t>(i);
      block.values[count] = std::bit_cast<std::uint32_t>(value);
      ++count;
      rest[i] = key_at(&value, 0) > zero ? 0.0F : value;
    }
  }
  return count;
}

/// What lies outside is written too, and overwritten by the next one inside, so that there is no branch to guess.
LACONIC_INLINE std::size_t gather(const GatherKeys& from) {
  const auto [keys, n, low, high, members] = from;
  const std::uint32_t width = high - low;
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t key = keys[i] & kMagnitude;
    members[count] = key;
    count += key - low <= width ? 1 : 0;
  }
  return count;
}

LACONIC_INLINE std::size_t count(const std::uint32_t* keys, std::size_t n, std::uint32_t bound) {
  const auto least = static_cast<std::int32_t>(bound);
  std::uint32_t above = 0;  // as wide as a key, so that the loop becomes vectors of one width
  for (std::size_t i = 0; i < n; ++i) above += static_cast<std::int32_t>(keys[i] & kMagnitude) > least ? 1 : 0;
  return above;
}

LACONIC_INLINE void emit(const EmitSection& to) {
  const Section& section = *to.section;
  std::size_t equals_left = section.equal;
  std::size_t written = 0;
  for (std::size_t i = 0; i < section.count; ++i) {
    const std::uint32_t key = section.keys[i] & kMagnitude;
    const bool equal = key == to.threshold && equals_left > 0;
    const bool selected = key > to.threshold || equal;
    const bool zeroed = static_cast<std::int32_t>(key) > section.bounds.zero;
    equals_left -= equal ? 1 : 0;
    if (selected) {
      to.indices[written] = section.indices[i];
      to.values[written] = std::bit_cast<float>(section.values[i]);
      ++written;
    }
    if (selected != zeroed) to.rest[section.indices[i]] = zeroed ? std::bit_cast<float>(section.values[i]) : 0.0F;
  }
}

}  // namespace

std::size_t count_above(SimdLevel level, const std::uint32_t* keys, std::size_t n, std::uint32_t bound) {
  return Clones<count>::run(level, keys, n, bound);
}

std::size_t scan_add(SimdLevel level, const ScanBlock& block, std::int32_t& highest) {
  return Clones<scan<true>>::run(level, block, highest);
}

std::size_t scan_again(SimdLevel level, const ScanBlock& block, std::int32_t& highest) {
  return Clones<scan<false>>::run(level, block, highest);
}

std::size_t gather_between(SimdLevel level, const GatherKeys& keys) { return Clones<gather>::run(level, keys); }

void emit_section(SimdLevel level, const EmitSection& section) { Clones<emit>::run(level, section); }

}  // namespace laconic::portable
