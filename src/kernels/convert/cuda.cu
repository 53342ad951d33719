#include "base/cuda/launch.h"
#include "kernels/convert/formats.h"
#include "kernels/convert/loops.h"

// Twins of kernels/convert, by the formulas of formats.h: the device's own conversions make every NaN the same.

namespace laconic::cuda {
namespace {

struct Half {
  static __device__ std::uint16_t narrow(float value) { return formats::half_of(value); }
  static __device__ float widen(std::uint16_t value) { return formats::float_of_half(value); }
  static __device__ bool nonfinite(std::uint16_t value) { return formats::nonfinite_half(value); }
};

struct Bfloat {
  static __device__ std::uint16_t narrow(float value) { return formats::bfloat_of(value); }
  static __device__ float widen(std::uint16_t value) { return formats::float_of_bfloat(value); }
  static __device__ bool nonfinite(std::uint16_t value) { return formats::nonfinite_bfloat(value); }
};

template <class Format>
__global__ void narrow_kernel(const float* values, std::uint16_t* out, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value) {
        const std::uint16_t narrowed = Format::narrow(value);
        out[i] = narrowed;
        nonfinite |= Format::nonfinite(narrowed);
      });
  if (nonfinite) status->nonfinite = 1;
}

template <class Format>
__global__ void widen_kernel(const std::uint16_t* values, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return values[i]; },
      [=](std::uint64_t i, std::uint16_t value) { out[i] = Format::widen(value); });
}

template <class Format>
__global__ void add_widened_kernel(const std::uint16_t* values, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return out[i] + Format::widen(values[i]); },
      [=](std::uint64_t i, float sum) { out[i] = sum; });
}

template <class Format>
__global__ void round_kernel(float* values, float* errors, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value) {
        const std::uint16_t narrowed = Format::narrow(value);
        const float widened = Format::widen(narrowed);
        errors[i] = value - widened;
        values[i] = widened;
        nonfinite |= Format::nonfinite(narrowed);
      });
  if (nonfinite) status->nonfinite = 1;
}

}  // namespace

void to_16bit(Place& place, View<const float> values, ValueFormat format, View<std::uint16_t> out, StatusView status) {
  const auto kernel = format == ValueFormat::f16 ? narrow_kernel<Half> : narrow_kernel<Bfloat>;
  launch_over(place, "to_16bit", values.size(), kernel, values.data(), out.data(), values.size(), status.data());
}

void from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out) {
  const auto kernel = format == ValueFormat::f16 ? widen_kernel<Half> : widen_kernel<Bfloat>;
  launch_over(place, "from_16bit", values.size(), kernel, values.data(), out.data(), values.size());
}

void add_from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out) {
  const auto kernel = format == ValueFormat::f16 ? add_widened_kernel<Half> : add_widened_kernel<Bfloat>;
  launch_over(place, "add_from_16bit", values.size(), kernel, values.data(), out.data(), values.size());
}

void round_through_16bit(Place& place, ValueFormat format, View<float> values, View<float> errors, StatusView status) {
  const auto kernel = format == ValueFormat::f16 ? round_kernel<Half> : round_kernel<Bfloat>;
  launch_over(place, "round_through_16bit", values.size(), kernel, values.data(), errors.data(), values.size(),
              status.data());
}

}  // namespace laconic::cuda
