#include <limits>

#include "base/cuda/launch.h"
#include "base/cuda/list.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/elementwise/loops.h"

// Twins of kernels/elementwise. Products and sums are rounded separately because nvcc is told -fmad=false.

namespace laconic::cuda {
namespace {

__global__ void fill_kernel(float value, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { values[i] = value; });
}

__global__ void axpy_kernel(float alpha, const float* x, float* y, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return y[i] + alpha * x[i]; }, [=](std::uint64_t i, float sum) { y[i] = sum; });
}

__global__ void divide_kernel(float divisor, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { values[i] = values[i] / divisor; });
}

template <class Number>
__global__ void find_nonfinite_kernel(const Number* values, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  for_each_entry(n, [&](std::uint64_t i) { nonfinite |= is_nonfinite(widened(values[i])); });
  if (nonfinite) status->nonfinite = 1;  // whoever writes writes the same
}

__global__ void spoil_kernel(float not_a_number, float* values, const Status* status) {
  if (status->nonfinite != 0) values[0] = not_a_number;
}

template <class Number>
struct Part {
  const Number* values;
  float weight;
};

/// All parts of an entry are read before it is written, so `out` may be one of them.
template <bool kWeighted, class Number, class Parts>
__global__ void sum_kernel(const __grid_constant__ Parts parts, unsigned count, float divisor, Number* out,
                           std::uint64_t n, Status* status) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads * kEntries + threadIdx.x;
  float sums[kEntries] = {};
  for (unsigned part = 0; part < count; ++part) {
    const Part<Number> each = parts[part];
#pragma unroll
    for (unsigned step = 0; step < kEntries; ++step) {
      const std::uint64_t i = first + step * kThreads;
      if (i >= n) continue;
      const float value = widened(each.values[i]);
      const float term = kWeighted ? each.weight * value : value;
      sums[step] = part == 0 ? term : sums[step] + term;
    }
  }
  bool nonfinite = false;
#pragma unroll
  for (unsigned step = 0; step < kEntries; ++step) {
    const std::uint64_t i = first + step * kThreads;
    if (i >= n) continue;
    const Number sum = narrowed<Number>(divisor != 1.0F ? sums[step] / divisor : sums[step]);
    nonfinite |= is_nonfinite(widened(sum));
    out[i] = sum;
  }
  if (nonfinite) status->nonfinite = 1;
}

/// `weights` is empty for a plain sum. The parts have n entries of the type Number.
template <bool kWeighted, class Number, class Views>
void sum_parts(Place& place, const Views& parts, std::span<const float> weights, float divisor, Number* out,
               std::uint64_t n, StatusView status) {
  if (n == 0) return;
  const auto part_at = [&](std::size_t i) {
    return Part<Number>{reinterpret_cast<const Number*>(parts[i].data()), kWeighted ? weights[i] : 1.0F};
  };
  with_list<Part<Number>>(place, parts.size(), part_at, [&](const auto& list) {
    const Launch launch(place, kWeighted ? "weighted_sum" : "sum_in_rank_order");
    sum_kernel<kWeighted, Number><<<blocks_for(n, kEntries), kThreads, 0, launch.stream()>>>(
        list, static_cast<unsigned>(parts.size()), divisor, out, n, status.data());
    launch.check();
  });
}

}  // namespace

void fill(Place& place, float value, View<float> values) {
  launch_over(place, "fill", values.size(), fill_kernel, value, values.data(), values.size());
}

void copy(Place& place, View<const float> from, View<float> to) {
  if (from.empty()) return;
  const Launch launch(place, "copy");
  check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, launch.stream()), "copy");
}

void clear(Place& place, GradientView values) {
  if (values.empty()) return;
  const Launch launch(place, "clear");
  check(cudaMemsetAsync(values.data(), 0, values.size_bytes(), launch.stream()), "clear");
}

void axpy(Place& place, float alpha, View<const float> x, View<float> y) {
  launch_over(place, "axpy", y.size(), axpy_kernel, alpha, x.data(), y.data(), y.size());
}

void divide(Place& place, float divisor, View<float> values) {
  launch_over(place, "divide", values.size(), divide_kernel, divisor, values.data(), values.size());
}

void find_nonfinite(Place& place, ConstGradientView values, StatusView status) {
  with_numbers(values, [&]<class Number>(const Number* from) {
    launch_over(place, "find_nonfinite", values.size(), find_nonfinite_kernel<Number>, from, values.size(),
                status.data());
  });
}

void sum_in_rank_order(Place& place, RankViews parts, float divisor, View<float> out, StatusView status) {
  sum_parts<false>(place, parts, {}, divisor, out.data(), out.size(), status);
}

void sum_in_rank_order(Place& place, std::span<const ConstGradientView> parts, float divisor, GradientView out,
                       StatusView status) {
  with_numbers(out, [&]<class Number>(Number* sums) {
    sum_parts<false>(place, parts, {}, divisor, sums, out.size(), status);
  });
}

void weighted_sum(Place& place, RankViews parts, std::span<const float> weights, View<float> out, StatusView status) {
  sum_parts<true>(place, parts, weights, 1.0F, out.data(), out.size(), status);
}

void spoil_if_nonfinite(Place& place, View<float> values, StatusView status) {
  const Launch launch(place, "spoil_if_nonfinite");
  spoil_kernel<<<1, 1, 0, launch.stream()>>>(std::numeric_limits<float>::quiet_NaN(), values.data(), status.data());
  launch.check();
}

}  // namespace laconic::cuda
