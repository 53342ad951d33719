#pragma once

// How a kernel's front door reaches its implementations. A simd.cpp defines its loops once for all targets with Highway,
// exports them, and gives each a plain function `simd::name(level, arguments...)`; reference.cpp gives `reference::name`.

#if LACONIC_HIGHWAY
#include <hwy/highway.h>

#include "laconic/place.h"

namespace laconic::simd {

/// The entry of a Highway dispatch table for a level: the best compiled target that the level allows.
inline std::size_t dispatch_index(SimdLevel level) {
  hwy::ChosenTarget target;
  switch (level) {
#if HWY_ARCH_X86
    case SimdLevel::avx512: target.Update(HWY_AVX3 | HWY_AVX2); break;
    case SimdLevel::avx2: target.Update(HWY_AVX2); break;
#elif HWY_ARCH_ARM
    case SimdLevel::neon: target.Update(HWY_NEON); break;
#endif
    default: target.Update(0); break;
  }
  return target.GetIndex();
}

}  // namespace laconic::simd

/// Calls a function that HWY_EXPORT exported, at a level: LACONIC_SIMD_CALL(level, Loop)(arguments...).
#define LACONIC_SIMD_CALL(level, function)                                    \
  (*(HWY_DISPATCH_TABLE(function)[std::size(HWY_DISPATCH_TABLE(function)) == 1 \
                                      ? 0                                      \
                                      : ::laconic::simd::dispatch_index(level)]))

/// Runs reference::name or simd::name(level), as the level says.
#define LACONIC_DISPATCH(level, name, ...)                                                  \
  ((level) == ::laconic::SimdLevel::reference ? ::laconic::reference::name(__VA_ARGS__) \
                                              : ::laconic::simd::name((level), __VA_ARGS__))
#else
#define LACONIC_DISPATCH(level, name, ...) (static_cast<void>(level), ::laconic::reference::name(__VA_ARGS__))
#endif
