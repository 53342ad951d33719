#include "kernels/convert/formats.h"
#include "kernels/convert/loops.h"

namespace laconic::reference {
namespace {

struct Half {
  static std::uint16_t narrow(float value) { return formats::half_of(value); }
  static float widen(std::uint16_t value) { return formats::float_of_half(value); }
  static bool nonfinite(std::uint16_t value) { return formats::nonfinite_half(value); }
};

struct Bfloat {
  static std::uint16_t narrow(float value) { return formats::bfloat_of(value); }
  static float widen(std::uint16_t value) { return formats::float_of_bfloat(value); }
  static bool nonfinite(std::uint16_t value) { return formats::nonfinite_bfloat(value); }
};

template <class Format>
bool narrow_all(const float* values, std::uint16_t* out, std::size_t n) {
  bool nonfinite = false;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = Format::narrow(values[i]);
    nonfinite |= Format::nonfinite(out[i]);
  }
  return nonfinite;
}

template <class Format>
bool round_all(float* values, float* errors, std::size_t n) {
  bool nonfinite = false;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t narrowed = Format::narrow(values[i]);
    const float widened = Format::widen(narrowed);
    errors[i] = values[i] - widened;
    values[i] = widened;
    nonfinite |= Format::nonfinite(narrowed);
  }
  return nonfinite;
}

}  // namespace

bool to_16bit(const float* values, ValueFormat format, std::uint16_t* out, std::size_t n) {
  return format == ValueFormat::f16 ? narrow_all<Half>(values, out, n) : narrow_all<Bfloat>(values, out, n);
}

void from_16bit(const std::uint16_t* values, ValueFormat format, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = format == ValueFormat::f16 ? Half::widen(values[i]) : Bfloat::widen(values[i]);
  }
}

bool round_through_16bit(ValueFormat format, float* values, float* errors, std::size_t n) {
  return format == ValueFormat::f16 ? round_all<Half>(values, errors, n) : round_all<Bfloat>(values, errors, n);
}

}  // namespace laconic::reference
