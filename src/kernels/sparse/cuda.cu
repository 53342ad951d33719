#include "base/cuda/launch.h"
#include "kernels/sparse/twins.h"

// Twins of the single-entry loops of kernels/sparse. Indices are distinct, so no two threads meet in an entry.

namespace laconic::cuda {
namespace {

struct Entry {
  std::uint32_t index;
  float value;
};

__global__ void scatter_add_kernel(const std::uint32_t* indices, const float* values, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return Entry{indices[i], out[indices[i]] + values[i]}; },
      [=](std::uint64_t, const Entry& entry) { out[entry.index] = entry.value; });
}

__global__ void scatter_kernel(const std::uint32_t* indices, const float* values, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return Entry{indices[i], values[i]}; },
      [=](std::uint64_t, const Entry& entry) { out[entry.index] = entry.value; });
}

__global__ void gather_kernel(const float* from, const std::uint32_t* indices, float* values, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return from[indices[i]]; },
      [=](std::uint64_t i, float value) { values[i] = value; });
}

__global__ void shift_kernel(std::uint32_t by, std::uint32_t* indices, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { indices[i] += by; });
}

}  // namespace

void scatter_add(Place& place, ConstSparseView entries, View<float> out) {
  launch_over(place, "scatter_add", entries.size(), scatter_add_kernel, entries.indices.data(), entries.values.data(),
              out.data(), entries.size());
}

void scatter(Place& place, ConstSparseView entries, View<float> out) {
  launch_over(place, "scatter", entries.size(), scatter_kernel, entries.indices.data(), entries.values.data(),
              out.data(), entries.size());
}

void gather(Place& place, View<const float> from, View<const std::uint32_t> indices, View<float> values) {
  launch_over(place, "gather", values.size(), gather_kernel, from.data(), indices.data(), values.data(), values.size());
}

void shift_indices(Place& place, std::uint64_t by, View<std::uint32_t> indices) {
  launch_over(place, "shift_indices", indices.size(), shift_kernel, static_cast<std::uint32_t>(by), indices.data(),
              indices.size());
}

void copy_indices(Place& place, View<const std::uint32_t> from, View<std::uint32_t> to) {
  if (from.empty()) return;
  const Launch launch(place, "copy_indices");
  check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, launch.stream()),
        "copy_indices");
}

}  // namespace laconic::cuda
