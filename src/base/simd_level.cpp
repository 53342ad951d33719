#include <array>
#include <cstdlib>
#include <iterator>
#include <string>

#include "laconic/error.h"
#include "laconic/place.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace laconic {
namespace {

constexpr std::array<const char*, std::size(kSimdLevels)> kNames{"reference", "emulated", "portable",
                                                                 "neon",      "avx2",     "avx512"};

// What Highway's targets of these names may use: the portable loops need less.
#if defined(__x86_64__) || defined(__i386__)
/// The two that not every compiler's __builtin_cpu_supports knows.
bool has_lzcnt_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & 1U << 29) != 0;
  const bool lzcnt = __get_cpuid(0x8000'0001U, &a, &b, &c, &d) != 0 && (c & 1U << 5) != 0;
  return f16c && lzcnt;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_lzcnt_and_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

bool has_neon() {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kNeeded = HWCAP_ASIMD | HWCAP_AES;  // Highway compiles its target with both
  return (getauxval(AT_HWCAP) & kNeeded) == kNeeded;
#else
  return false;
#endif
}

SimdLevel best_level() {
  SimdLevel best = SimdLevel::reference;
  for (const SimdLevel level : kSimdLevels) {
    if (level != SimdLevel::emulated && simd_available(level)) best = level;
  }
  return best;
}

}  // namespace

const char* simd_name(SimdLevel level) { return kNames[static_cast<std::size_t>(level)]; }

const char* simd_vectors(SimdLevel level) {
  if (level == SimdLevel::reference) return "none";
  return LACONIC_HIGHWAY != 0 && level != SimdLevel::portable ? "Highway" : "compiler";
}

bool simd_available(SimdLevel level) {
  switch (level) {
    case SimdLevel::reference:
    case SimdLevel::portable: return true;
    case SimdLevel::emulated: return LACONIC_HIGHWAY != 0;
    case SimdLevel::neon: {
      static const bool neon = LACONIC_HIGHWAY != 0 && has_neon();  // without Highway `portable` has these vectors
      return neon;
    }
    case SimdLevel::avx2: {
      static const bool avx2 = has_avx2();
      return avx2;
    }
    case SimdLevel::avx512: {
      static const bool avx512 = has_avx512();
      return avx512;
    }
  }
  return false;
}

SimdLevel simd_from_name(std::string_view name) {
  std::string available;
  for (const SimdLevel level : kSimdLevels) {
    if (!simd_available(level)) continue;
    if (name == simd_name(level)) return level;
    available += std::string(available.empty() ? "" : ", ") + simd_name(level);
  }
  throw InvalidConfig("SIMD level must be one of " + available + " here, got " + std::string(name) +
                      ": unset LACONIC_SIMD for the best one");
}

SimdLevel default_simd() {
  static const SimdLevel best = best_level();
  const char* forced = std::getenv("LACONIC_SIMD");
  return forced == nullptr || *forced == '\0' ? best : simd_from_name(forced);
}

}  // namespace laconic
