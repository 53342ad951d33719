#pragma once

// Plain loops, compiled once per instruction set. A portable.cpp writes each loop as a function that is always inlined:
//
//   LACONIC_INLINE void halve(float* values, std::size_t n) { for (...) values[i] *= 0.5F; }
//   void portable::halve(SimdLevel level, float* values, std::size_t n) { Clones<halve>::run(level, values, n); }
//
// Clones<halve> inlines it into one function per instruction set, where the compiler vectorises it for that set.
// Functions that a loop calls must be LACONIC_INLINE too. Nothing else is compiled for those sets, so that no inline
// function of a header contains instructions that an older processor lacks.

#include <cstddef>

#include "laconic/place.h"

#define LACONIC_INLINE [[gnu::always_inline]] inline

/// Goes before a loop whose iterations are independent. An output may be an input, entry by entry.
#if defined(__clang__)
#define LACONIC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LACONIC_INDEPENDENT _Pragma("GCC ivdep")
#else
#define LACONIC_INDEPENDENT
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define LACONIC_X86_CLONES 1
#else
#define LACONIC_X86_CLONES 0
#endif

namespace laconic {

template <auto kLoop>
struct Clones;

template <class Result, class... Arguments, Result (*kLoop)(Arguments...)>
struct Clones<kLoop> {
  static Result run(SimdLevel level, Arguments... arguments) {
#if LACONIC_X86_CLONES
    if (level == SimdLevel::avx512) return avx512(arguments...);
    if (level == SimdLevel::avx2) return avx2(arguments...);
#endif
    static_cast<void>(level);
    return base(arguments...);
  }

 private:
  static Result base(Arguments... arguments) { return kLoop(arguments...); }
#if LACONIC_X86_CLONES
  [[gnu::target("avx2,bmi,bmi2")]] static Result avx2(Arguments... arguments) { return kLoop(arguments...); }
  [[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,avx512cd,bmi,bmi2")]] static Result avx512(Arguments... arguments) {
    return kLoop(arguments...);
  }
#endif
};

}  // namespace laconic
