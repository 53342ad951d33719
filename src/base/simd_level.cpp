#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "laconic/error.h"
#include "laconic/place.h"

#if LACONIC_HIGHWAY
#include <hwy/targets.h>
#endif

namespace laconic {
namespace {

constexpr std::array<std::pair<SimdLevel, const char*>, 5> kLevels{{
    {SimdLevel::reference, "reference"},
    {SimdLevel::portable, "portable"},
    {SimdLevel::neon, "neon"},
    {SimdLevel::avx2, "avx2"},
    {SimdLevel::avx512, "avx512"},
}};

SimdLevel best_level() {
  for (std::size_t i = kLevels.size(); i-- > 0;) {
    const SimdLevel level = kLevels[i].first;
    // Emulated vectors are for tests; where the processor has none, plain loops are faster.
    if (level != SimdLevel::portable && simd_available(level)) return level;
  }
  return SimdLevel::reference;
}

}  // namespace

const char* simd_name(SimdLevel level) { return kLevels[static_cast<std::size_t>(level)].second; }

bool simd_available(SimdLevel level) {
  if (level == SimdLevel::reference) return true;
#if LACONIC_HIGHWAY
  const auto supported = hwy::SupportedTargets();
  switch (level) {
    case SimdLevel::portable: return true;
#if HWY_ARCH_X86
    case SimdLevel::avx2: return (supported & HWY_AVX2) != 0;
    case SimdLevel::avx512: return (supported & HWY_AVX3) != 0;
#elif HWY_ARCH_ARM
    case SimdLevel::neon: return (supported & HWY_NEON) != 0;
#endif
    default: return false;
  }
#else
  return false;
#endif
}

SimdLevel simd_from_name(std::string_view name) {
  std::string available;
  for (const auto& [level, level_name] : kLevels) {
    if (!simd_available(level)) continue;
    if (name == level_name) return level;
    available += std::string(available.empty() ? "" : ", ") + level_name;
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
