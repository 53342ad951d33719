#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/residual.h"
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

/// Whether Compress is one instruction; elsewhere a loop over the bits of the mask is faster.
constexpr bool kCompresses = HWY_TARGET == HWY_AVX3;

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

/// As with_residual.
template <class V>
HWY_INLINE V WithResidual(V gradient, V residual) {
  return hn::IfThenElse(hn::Eq(residual, hn::Zero(Floats())), gradient, hn::Add(gradient, residual));
}

/// Writes the indices of a group's candidates, whose bits are set. How many there are cannot be predicted, so four at a
/// time are written, however few there are; the next group writes over what is too much.
HWY_INLINE void append(std::uint64_t found, std::uint32_t group, std::uint32_t* indices) {
  constexpr std::size_t kAtOnce = 4;
  static_assert(kAtOnce <= topk::kOverrun);
  // Without a bit that is always found, the compiler would branch where none is left.
  constexpr std::uint64_t kLast = std::uint64_t{1} << (kGroup - 1);
  do {
    for (std::size_t j = 0; j < kAtOnce; ++j, found &= found - 1) {
      indices[j] = group + static_cast<std::uint32_t>(std::countr_zero(found | kLast));
    }
    indices += kAtOnce;
  } while (found != 0);
}

/// Reads the values of a block's candidates from `rest`, and sets those above the bound to zero there, without a branch.
HWY_INLINE void take_values(const topk::ScanBlock& block, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float& entry = block.rest[block.indices[i] - block.first_index];
    const auto bits = std::bit_cast<std::uint32_t>(entry);
    const std::int32_t below = block.bounds.zero - static_cast<std::int32_t>(bits & topk::kMagnitude);
    block.values[i] = bits;
    entry = std::bit_cast<float>(bits & ~static_cast<std::uint32_t>(below >> 31));
  }
}

template <bool kAdd>
std::size_t Scan(const topk::ScanBlock& block, std::int32_t& highest) {
  const Floats df;
  const Ints di;
  const auto magnitude = hn::Set(di, 0x7FFF'FFFF);
  const auto candidate = hn::Set(di, block.bounds.candidate);
  float* rest = block.rest;  // may be block.residual
  auto most = hn::Set(di, highest);
  std::size_t count = 0;

  std::size_t i = 0;
  for (; i + kGroup <= block.size; i += kGroup) {
    std::uint64_t found = 0;
    for (std::size_t j = 0; j < kGroup; j += kLanes) {
      const auto a = kAdd ? WithResidual(hn::LoadU(df, block.gradient + i + j), hn::LoadU(df, block.residual + i + j))
                          : hn::LoadU(df, rest + i + j);
      const auto key = hn::And(hn::BitCast(di, a), magnitude);
      most = hn::Max(most, key);
      if constexpr (kAdd) hn::StoreU(a, df, rest + i + j);
      found |= bits_of(di, hn::Gt(key, candidate)) << j;
    }
    append(found, block.first_index + static_cast<std::uint32_t>(i), block.indices + count);
    count += static_cast<std::size_t>(std::popcount(found));
  }
  highest = hn::GetLane(hn::MaxOfLanes(di, most));
  for (; i < block.size; ++i) {
    if constexpr (kAdd) rest[i] = with_residual(block.gradient[i], block.residual[i]);
    const auto key = static_cast<std::int32_t>(topk::key_of(rest[i]));
    highest = std::max(highest, key);
    if (key > block.bounds.candidate) block.indices[count++] = block.first_index + static_cast<std::uint32_t>(i);
  }
  take_values(block, count);  // while the block is in the first cache
  return count;
}

std::size_t ScanAdd(const topk::ScanBlock& block, std::int32_t& highest) { return Scan<true>(block, highest); }
std::size_t ScanAgain(const topk::ScanBlock& block, std::int32_t& highest) { return Scan<false>(block, highest); }

std::size_t GatherBetween(const topk::GatherKeys& gather) {
  const auto [keys, n, low, high, members] = gather;
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

/// Writes down which candidates are selected, and remembers those whose zero was guessed wrong.
class Emitter {
 public:
  explicit Emitter(const topk::EmitSection& emit)
      : emit_(emit), section_(*emit.section), equals_left_(section_.equal) {}

  /// The candidates from i on whose bits are set: above the threshold, at the threshold, set to zero by the scan.
  HWY_INLINE void emit(std::size_t i, std::uint64_t above, std::uint64_t equal, std::uint64_t zeroed) {
    std::uint64_t selected = above;
    for (; equal != 0 && equals_left_ > 0; equal &= equal - 1, --equals_left_) selected |= equal & (~equal + 1);
    for (std::uint64_t wrong = selected ^ zeroed; wrong != 0; wrong &= wrong - 1) {
      // Repairs are few and far apart, so each is a cache miss: ask for it here, make it at the end.
      const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(wrong));
      __builtin_prefetch(emit_.rest + section_.indices[at], 1);
      section_.scratch[repairs_++] = static_cast<std::uint32_t>(at);
    }
    store(i, selected);
  }

  void repair() const {
    for (std::size_t i = 0; i < repairs_; ++i) {
      const std::uint32_t at = section_.scratch[i];
      const bool zeroed = static_cast<std::int32_t>(section_.keys[at] & 0x7FFF'FFFFU) > section_.bounds.zero;
      emit_.rest[section_.indices[at]] = zeroed ? std::bit_cast<float>(section_.values[at]) : 0.0F;
    }
  }

 private:
  HWY_INLINE void store(std::size_t i, std::uint64_t selected) {
    if constexpr (kCompresses) {
      if (written_ + kLanes <= section_.greater + section_.equal) {
        const Words du;
        const auto mask = hn::LoadMaskBits(du, reinterpret_cast<const std::uint8_t*>(&selected));
        hn::StoreU(hn::Compress(hn::LoadU(du, section_.indices + i), mask), du, emit_.indices + written_);
        const auto values = hn::BitCast(Floats(), hn::Compress(hn::LoadU(du, section_.values + i), mask));
        hn::StoreU(values, Floats(), emit_.values + written_);
        written_ += static_cast<std::size_t>(std::popcount(selected));
        return;
      }
    }
    for (; selected != 0; selected &= selected - 1) {
      const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(selected));
      emit_.indices[written_] = section_.indices[at];
      emit_.values[written_] = std::bit_cast<float>(section_.values[at]);
      ++written_;
    }
  }

  const topk::EmitSection& emit_;
  const topk::Section& section_;
  std::size_t equals_left_;
  std::size_t written_ = 0;
  std::size_t repairs_ = 0;
};

void EmitSection(const topk::EmitSection& emit) {
  const topk::Section& section = *emit.section;
  const Ints di;
  const Words du;
  const auto magnitude = hn::Set(du, 0x7FFF'FFFFU);
  const auto threshold = hn::Set(di, static_cast<std::int32_t>(emit.threshold));
  const auto zero = hn::Set(di, section.bounds.zero);
  Emitter emitter(emit);
  // The buffers are longer than their candidates, so a whole vector can be read at the end.
  for (std::size_t i = 0; i < section.count; i += kLanes) {
    const std::uint64_t there =
        section.count - i < kLanes ? (std::uint64_t{1} << (section.count - i)) - 1 : ~std::uint64_t{0};
    const auto key = hn::BitCast(di, hn::And(hn::LoadU(du, section.keys + i), magnitude));
    emitter.emit(i, bits_of(di, hn::Gt(key, threshold)) & there, bits_of(di, hn::Eq(key, threshold)) & there,
                 bits_of(di, hn::Gt(key, zero)) & there);
  }
  emitter.repair();
}

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

std::size_t scan_add(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest) {
  return LACONIC_SIMD_CALL(level, ScanAdd)(block, highest);
}

std::size_t scan_again(SimdLevel level, const topk::ScanBlock& block, std::int32_t& highest) {
  return LACONIC_SIMD_CALL(level, ScanAgain)(block, highest);
}

std::size_t gather_between(SimdLevel level, const topk::GatherKeys& gather) {
  return LACONIC_SIMD_CALL(level, GatherBetween)(gather);
}

void emit_section(SimdLevel level, const topk::EmitSection& emit) { LACONIC_SIMD_CALL(level, EmitSection)(emit); }

}  // namespace laconic::simd
#endif
