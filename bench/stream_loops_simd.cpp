#include "bench/stream_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/stream_loops_simd.cpp"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace laconic::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> kFloats;
const hn::ScalableTag<std::uint32_t> kWords;

// What is left after the last whole vector is so little that plain loops do.

/// Four places at once: one alone is held back by the lines that a core can wait for, not by the memory.
std::uint32_t Read(const std::uint32_t* words, std::size_t count) {
  const std::size_t lanes = hn::Lanes(kWords);
  const std::size_t step = 2 * lanes;
  const std::size_t quarter = count / 4 / step * step;
  const std::uint32_t* second = words + quarter;
  const std::uint32_t* third = second + quarter;
  const std::uint32_t* fourth = third + quarter;
  auto a = hn::Zero(kWords), b = a, c = a, d = a;
  for (std::size_t i = 0; i < quarter; i += step) {
    for (std::size_t j = i; j < i + step; j += lanes) {
      a = hn::Or(a, hn::LoadU(kWords, words + j));
      b = hn::Or(b, hn::LoadU(kWords, second + j));
      c = hn::Or(c, hn::LoadU(kWords, third + j));
      d = hn::Or(d, hn::LoadU(kWords, fourth + j));
    }
  }
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(kWords, hn::Or(hn::Or(a, b), hn::Or(c, d))));
  for (std::size_t i = 4 * quarter; i < count; ++i) result |= words[i];
  return result;
}

void Add(const float* x, float* y, std::size_t count) {
  const std::size_t lanes = hn::Lanes(kFloats);
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (std::size_t j = i; j < i + 4 * lanes; j += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(kFloats, y + j), hn::LoadU(kFloats, x + j)), kFloats, y + j);
    }
  }
  for (; i < count; ++i) y[i] += x[i];
}

void Update(float* y, std::size_t count) {
  const std::size_t lanes = hn::Lanes(kFloats);
  const auto step = hn::Set(kFloats, 0.5F);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Add(hn::LoadU(kFloats, y + i), step), kFloats, y + i);
  for (; i < count; ++i) y[i] += 0.5F;
}

void Write(float* y, std::size_t count) {
  const std::size_t lanes = hn::Lanes(kFloats);
  const auto value = hn::Set(kFloats, 0.5F);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(value, kFloats, y + i);
  for (; i < count; ++i) y[i] = 0.5F;
}

void Narrow(const float* x, std::uint16_t* y, std::size_t count) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(x);
  const hn::Rebind<std::uint16_t, decltype(kWords)> halves;
  const std::size_t lanes = hn::Lanes(kWords);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const hn::Rebind<std::int32_t, decltype(kWords)> signed_words;
    const auto upper = hn::ShiftRight<17>(hn::LoadU(kWords, words + i));  // below 2^15, so that saturation never acts
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(signed_words, upper)), halves, y + i);
  }
  for (; i < count; ++i) y[i] = static_cast<std::uint16_t>(words[i] >> 17);
}

void Widen(const std::uint16_t* x, float* y, std::size_t count) {
  auto* words = reinterpret_cast<std::uint32_t*>(y);
  const hn::Rebind<std::uint16_t, decltype(kWords)> halves;
  const std::size_t lanes = hn::Lanes(kWords);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(kWords, hn::LoadU(halves, x + i))), kWords, words + i);
  }
  for (; i < count; ++i) words[i] = static_cast<std::uint32_t>(x[i]) << 16;
}

void Merge(const float* a, const float* b, float* out, std::size_t count) {
  const std::size_t lanes = hn::Lanes(kFloats);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(kFloats, a + i), hn::LoadU(kFloats, b + i)), kFloats, out + i);
  }
  for (; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace laconic::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::bench {

HWY_EXPORT(Read);
HWY_EXPORT(Add);
HWY_EXPORT(Update);
HWY_EXPORT(Write);
HWY_EXPORT(Narrow);
HWY_EXPORT(Widen);
HWY_EXPORT(Merge);

namespace loops {

std::uint32_t read(const std::uint32_t* words, std::size_t count) { return HWY_DYNAMIC_DISPATCH(Read)(words, count); }
void add(const float* x, float* y, std::size_t count) { HWY_DYNAMIC_DISPATCH(Add)(x, y, count); }
void update(float* y, std::size_t count) { HWY_DYNAMIC_DISPATCH(Update)(y, count); }
void write(float* y, std::size_t count) { HWY_DYNAMIC_DISPATCH(Write)(y, count); }
void narrow(const float* x, std::uint16_t* y, std::size_t count) { HWY_DYNAMIC_DISPATCH(Narrow)(x, y, count); }
void widen(const std::uint16_t* x, float* y, std::size_t count) { HWY_DYNAMIC_DISPATCH(Widen)(x, y, count); }
void merge(const float* a, const float* b, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(Merge)(a, b, out, count);
}

}  // namespace loops
}  // namespace laconic::bench
#endif
