#pragma once

// How a kernel's front door reaches its implementations. reference.cpp defines `reference::name(arguments...)` and
// portable.cpp defines `portable::name(level, arguments...)` with clones.h. If the build has Highway, simd.cpp defines
// `simd::name(level, arguments...)`: it writes its loops once for all of Highway's targets and calls the loop of a
// level by LACONIC_SIMD_CALL.

#include "laconic/place.h"

#if LACONIC_HIGHWAY
#include <hwy/highway.h>

#include <type_traits>

namespace laconic::simd {

/// The function of a level if this build has its target; otherwise the function of the build's lowest target.
template <class Function>
Function* at_level(SimdLevel level, std::type_identity_t<Function>* avx512, std::type_identity_t<Function>* avx2,
                   std::type_identity_t<Function>* neon, Function* least) {
  Function* wanted = level == SimdLevel::avx512 ? avx512
                     : level == SimdLevel::avx2 ? avx2
                     : level == SimdLevel::neon ? neon
                                                : nullptr;
  return wanted != nullptr ? wanted : least;
}

}  // namespace laconic::simd

/// Calls a function of the Highway targets at a level: LACONIC_SIMD_CALL(level, Loop)(arguments...). Highway's own table
/// would need its library at run time to detect the processor. base/simd_level.cpp detects it, so the headers are
/// enough.
#define LACONIC_SIMD_CALL(level, function)                                                               \
  (*::laconic::simd::at_level((level), HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function),              \
                              HWY_CHOOSE_NEON(function), &HWY_STATIC_DISPATCH(function)))

/// Runs portable::name or simd::name, depending on the level, which must not be `reference`.
#define LACONIC_VECTOR_CALL(level, name, ...)                                                  \
  ((level) == ::laconic::SimdLevel::portable ? ::laconic::portable::name((level), __VA_ARGS__) \
                                             : ::laconic::simd::name((level), __VA_ARGS__))
#else
#define LACONIC_VECTOR_CALL(level, name, ...) ::laconic::portable::name((level), __VA_ARGS__)
#endif

/// Runs reference::name or a vector implementation, depending on the level.
#define LACONIC_DISPATCH(level, name, ...)                                              \
  ((level) == ::laconic::SimdLevel::reference ? ::laconic::reference::name(__VA_ARGS__) \
                                              : LACONIC_VECTOR_CALL(level, name, __VA_ARGS__))
