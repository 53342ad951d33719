// Philox4x32-7 on vectors: the same blocks as base/philox.h. Included once per Highway target, hence the unusual guard.
#if defined(LACONIC_KERNELS_PHILOX_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LACONIC_KERNELS_PHILOX_SIMD_INL_H_
#undef LACONIC_KERNELS_PHILOX_SIMD_INL_H_
#else
#define LACONIC_KERNELS_PHILOX_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstdint>

#include "base/philox.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace laconic::HWY_NAMESPACE {
namespace {

/// Draws neighbouring blocks of one stream, one vector of blocks per call. D is a tag of at most 16 lanes of uint32.
///
/// Even and odd blocks are kept apart, each in the low half of a 64-bit lane. The widening multiply reads only that
/// half, so the contents of the high half do not matter, and nothing is shuffled until the last round is done.
/// Only the lowest word of the counter differs between the blocks, so half of the first two rounds and a part of the
/// third are the same for all blocks and are computed once.
template <class D>
class PhiloxVector {
  using Wide = hwy::HWY_NAMESPACE::RepartitionToWide<D>;
  using V = hwy::HWY_NAMESPACE::Vec<D>;
  using W = hwy::HWY_NAMESPACE::Vec<Wide>;

 public:
  /// For the blocks that share the bits above 32 of `block`.
  PhiloxVector(const RandomStream& stream, std::uint64_t block) : high_(block >> 32) {
    std::uint32_t key0 = stream.key0();
    std::uint32_t key1 = stream.key1();
    for (int round = 0; round < kPhiloxRounds; ++round) {
      keys0_[round] = key0;
      keys1_[round] = key1;
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    const PhiloxBlock counter = stream.counter(block);
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    const auto word0 = static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ keys0_[0];
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * word0;
    first_ = counter[3] ^ keys1_[0];
    second0_ = static_cast<std::uint32_t>(product1) ^ keys0_[1];
    second2_ = static_cast<std::uint32_t>(product0 >> 32) ^ keys1_[1];
    third_ = static_cast<std::uint32_t>(product0) ^ keys1_[2];
  }

  /// Whether this object draws that block.
  bool covers(std::uint64_t block) const { return block >> 32 == high_; }

  /// Lane l gets the words of block `first` + l. `first` is a multiple of the number of lanes, so the low 32 bits never
  /// overflow.
  HWY_INLINE void draw(std::uint64_t first, V& word0, V& word1, V& word2, V& word3) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const D d;
    const Wide w;
    const W even = hn::Add(hn::Set(w, first & 0xFFFF'FFFFU), hn::ShiftLeft<1>(hn::Iota(w, 0)));
    const W odd = hn::Add(even, hn::Set(w, 1));
    W even0, even1, even2, even3, odd0, odd1, odd2, odd3;
    rounds(even, even0, even1, even2, even3);
    rounds(odd, odd0, odd1, odd2, odd3);
    word0 = join(d, even0, odd0);
    word1 = join(d, even1, odd1);
    word2 = join(d, even2, odd2);
    word3 = join(d, even3, odd3);
  }

 private:
  static HWY_INLINE W multiply(W factor, std::uint32_t multiplier) {
    namespace hn = hwy::HWY_NAMESPACE;
    const D d;
    return hn::MulEven(hn::BitCast(d, factor), hn::Set(d, multiplier));
  }

  static HWY_INLINE V join(D d, W even, W odd) {
    namespace hn = hwy::HWY_NAMESPACE;
    return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  }

  HWY_INLINE void rounds(W index, W& word0, W& word1, W& word2, W& word3) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const Wide w;
    W product0 = multiply(index, kPhiloxMultiplier0);
    word2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Set(w, first_));
    word3 = product0;

    W product1 = multiply(word2, kPhiloxMultiplier1);
    word0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Set(w, second0_));
    word1 = product1;
    word2 = hn::Xor(word3, hn::Set(w, second2_));

    product0 = multiply(word0, kPhiloxMultiplier0);
    product1 = multiply(word2, kPhiloxMultiplier1);
    word0 = hn::Xor3(hn::ShiftRight<32>(product1), word1, hn::Set(w, keys0_[2]));
    word1 = product1;
    word2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Set(w, third_));
    word3 = product0;
    one_round<3>(word0, word1, word2, word3);
    one_round<4>(word0, word1, word2, word3);
    one_round<5>(word0, word1, word2, word3);
    one_round<6>(word0, word1, word2, word3);
    static_assert(kPhiloxRounds == 7);
  }

  template <int kRound>
  HWY_INLINE void one_round(W& word0, W& word1, W& word2, W& word3) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const Wide w;
    const W product0 = multiply(word0, kPhiloxMultiplier0);
    const W product1 = multiply(word2, kPhiloxMultiplier1);
    word0 = hn::Xor3(hn::ShiftRight<32>(product1), word1, hn::Set(w, keys0_[kRound]));
    word1 = product1;
    word2 = hn::Xor3(hn::ShiftRight<32>(product0), word3, hn::Set(w, keys1_[kRound]));
    word3 = product0;
  }

  std::uint64_t high_;
  std::array<std::uint32_t, kPhiloxRounds> keys0_;
  std::array<std::uint32_t, kPhiloxRounds> keys1_;
  std::uint32_t first_;    ///< round 1: what the third word is mixed with
  std::uint32_t second0_;  ///< round 2: what the first word is mixed with
  std::uint32_t second2_;  ///< round 2: what the third word is mixed with
  std::uint32_t third_;    ///< round 3: what the third word is mixed with
};

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
