#include "base/cuda/launch.h"
#include "kernels/elementwise/loops.h"

// Twins of kernels/elementwise. Products and sums are rounded separately because nvcc is told -fmad=false.

namespace laconic::cuda {
namespace {

__global__ void fill_kernel(float value, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { values[i] = value; });
}

__global__ void axpy_kernel(float alpha, const float* x, float* y, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { y[i] = y[i] + alpha * x[i]; });
}

__global__ void divide_kernel(float divisor, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { values[i] = values[i] / divisor; });
}

__global__ void find_nonfinite_kernel(const float* values, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  for_each_entry(n, [&](std::uint64_t i) { nonfinite |= is_nonfinite(values[i]); });
  if (nonfinite) status->nonfinite = 1;  // whoever writes writes the same
}

}  // namespace

void fill(Place& place, float value, View<float> values) {
  if (values.empty()) return;
  const Launch launch(place, "fill");
  fill_kernel<<<blocks_for(values.size(), kEntries), kThreads, 0, launch.stream()>>>(value, values.data(),
                                                                                     values.size());
  launch.check();
}

void copy(Place& place, View<const float> from, View<float> to) {
  if (from.empty()) return;
  const Launch launch(place, "copy");
  check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, launch.stream()), "copy");
}

void axpy(Place& place, float alpha, View<const float> x, View<float> y) {
  if (y.empty()) return;
  const Launch launch(place, "axpy");
  axpy_kernel<<<blocks_for(y.size(), kEntries), kThreads, 0, launch.stream()>>>(alpha, x.data(), y.data(), y.size());
  launch.check();
}

void divide(Place& place, float divisor, View<float> values) {
  if (values.empty()) return;
  const Launch launch(place, "divide");
  divide_kernel<<<blocks_for(values.size(), kEntries), kThreads, 0, launch.stream()>>>(divisor, values.data(),
                                                                                       values.size());
  launch.check();
}

void find_nonfinite(Place& place, View<const float> values, StatusView status) {
  if (values.empty()) return;
  const Launch launch(place, "find_nonfinite");
  find_nonfinite_kernel<<<blocks_for(values.size(), kEntries), kThreads, 0, launch.stream()>>>(
      values.data(), values.size(), status.data());
  launch.check();
}

}  // namespace laconic::cuda
