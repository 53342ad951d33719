#include "kernels/convert/cuda/numbers.h"
#include "kernels/convert/loops.h"

// Twins of kernels/convert.

namespace laconic::cuda {
namespace {

template <class From, class To>
__global__ void convert_kernel(const From* from, To* to, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return from[i]; },
      [&](std::uint64_t i, From value) {
        const To result = narrowed<To>(widened(value));
        to[i] = result;
        nonfinite |= is_nonfinite(widened(result));
      });
  if (nonfinite && status != nullptr) status->nonfinite = 1;
}

template <class Number>
__global__ void round_kernel(float* values, float* errors, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return values[i]; },
      [&](std::uint64_t i, float value) {
        const float rounded = widened(narrowed<Number>(value));
        errors[i] = value - rounded;
        values[i] = rounded;
        nonfinite |= is_nonfinite(rounded);
      });
  if (nonfinite) status->nonfinite = 1;
}

/// Words of 16 bits as the numbers that they are.
GradientView numbers_of(View<std::uint16_t> words, ValueFormat format) {
  const NumberType type = format == ValueFormat::f16 ? NumberType::float16 : NumberType::bfloat16;
  return {reinterpret_cast<std::byte*>(words.data()), type, words.size(), words.device()};
}
ConstGradientView numbers_of(View<const std::uint16_t> words, ValueFormat format) {
  return numbers_of(View<std::uint16_t>(const_cast<std::uint16_t*>(words.data()), words.size(), words.device()), format);
}

}  // namespace

void convert(Place& place, ConstGradientView from, GradientView to, StatusView status) {
  if (from.empty()) return;
  if (from.is_float32() && to.is_float32() && status.empty()) {
    const Launch launch(place, "convert");
    const auto bytes = from.size_bytes();
    return check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, launch.stream()), "convert");
  }
  with_numbers(from, [&]<class From>(const From* values) {
    with_numbers(to, [&]<class To>(To* out) {
      launch_over(place, "convert", from.size(), convert_kernel<From, To>, values, out, from.size(), status.data());
    });
  });
}

void to_16bit(Place& place, View<const float> values, ValueFormat format, View<std::uint16_t> out, StatusView status) {
  cuda::convert(place, values, numbers_of(out, format), status);
}

void from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out) {
  cuda::convert(place, numbers_of(values, format), out, {});
}

void round_through_16bit(Place& place, ValueFormat format, View<float> values, View<float> errors, StatusView status) {
  const auto kernel = format == ValueFormat::f16 ? round_kernel<Half> : round_kernel<Bfloat>;
  launch_over(place, "round_through_16bit", values.size(), kernel, values.data(), errors.data(), values.size(),
              status.data());
}

}  // namespace laconic::cuda
