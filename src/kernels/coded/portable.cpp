#include <algorithm>
#include <bit>

#include "kernels/clones.h"
#include "kernels/coded/loops.h"

namespace laconic::portable {
namespace {

using coded::Above;
using coded::Tally;

constexpr std::uint32_t kMagnitude = 0x7FFF'FFFFU;
constexpr std::uint32_t kSmallestNormal = 0x80'0000U;

LACONIC_INLINE std::uint32_t key_at(const float* values, std::size_t i) {
  return std::bit_cast<std::uint32_t>(values[i]) & kMagnitude;
}

LACONIC_INLINE std::uint32_t exponent(std::uint32_t key) { return std::max(key >> 23, 1U); }

/// Tally::fixed without branches: up to the units of the scope's largest magnitude, where all bits fit, then down.
struct Units {
  std::uint32_t top;
  unsigned up;

  LACONIC_INLINE explicit Units(const Tally& tally)
      : top(exponent(tally.highest)), up(static_cast<unsigned>(tally.fraction() - 24)) {}

  LACONIC_INLINE std::uint64_t fixed(std::uint32_t key) const {
    const std::uint64_t whole = (key & (kSmallestNormal - 1)) | (key >= kSmallestNormal ? kSmallestNormal : 0U);
    return whole << up >> std::min(top - exponent(key), 63U);
  }
};

LACONIC_INLINE std::uint32_t largest(View<const float> values) {
  std::int32_t most = 0;  // keys are below 2^31, and every instruction set has a maximum of signed numbers
  for (std::size_t i = 0; i < values.size(); ++i) {
    most = std::max(most, static_cast<std::int32_t>(key_at(values.data(), i)));
  }
  return static_cast<std::uint32_t>(most);
}

LACONIC_INLINE std::uint64_t sum(View<const float> values, const Tally& tally) {
  const Units units(tally);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += units.fixed(key_at(values.data(), i));
  return total;
}

LACONIC_INLINE Above above(View<const float> values, const Tally& tally) {
  const Units units(tally);
  const auto mean = std::bit_cast<std::uint32_t>(tally.mean);
  Above result{0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t key = key_at(values.data(), i);
    const std::uint64_t counts = key > mean ? ~std::uint64_t{0} : 0;  // a mask, as comparisons of vectors make it
    result.count -= counts;
    result.sum += units.fixed(key) & counts;
  }
  return result;
}

LACONIC_INLINE void code(ValueFormat format, const Tally& tally, View<float> values, View<float> errors) {
  const auto mean = std::bit_cast<std::uint32_t>(tally.mean);
  const float low = format == ValueFormat::sign ? tally.mean : tally.low;
  const float high = format == ValueFormat::sign ? tally.mean : tally.high;
  float* coded = values.data();
  float* error = errors.data();
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = coded[i];
    const float magnitude = key_at(coded, i) > mean ? high : low;
    coded[i] = value < 0.0F ? -magnitude : magnitude;
    error[i] = value - coded[i];
  }
}

}  // namespace

std::uint32_t largest_key(SimdLevel level, View<const float> values) { return Clones<largest>::run(level, values); }

std::uint64_t sum_magnitudes(SimdLevel level, View<const float> values, const Tally& tally) {
  return Clones<sum>::run(level, values, tally);
}

Above sum_above(SimdLevel level, View<const float> values, const Tally& tally) {
  return Clones<above>::run(level, values, tally);
}

void code_run(SimdLevel level, ValueFormat format, const Tally& tally, View<float> values, View<float> errors) {
  Clones<code>::run(level, format, tally, values, errors);
}

}  // namespace laconic::portable
