#pragma once

// Lists that the CPU has and a kernel reads, one item per rank or tensor. They travel as parameters of kernels, because
// a copy from ordinary CPU memory may wait for the stream.

#include <algorithm>

#include "base/cuda/launch.h"
#include "base/workspace.h"

namespace laconic::cuda {

inline constexpr unsigned kMostInParameters = 64;

#ifdef __CUDACC__
/// A short list, in the parameters of the kernel that reads it.
template <class T, unsigned kMost = kMostInParameters>
struct InParameters {
  T items[kMost];
  __device__ const T& operator[](unsigned i) const { return items[i]; }
};

/// A longer one, in the workspace.
template <class T>
struct InMemory {
  const T* items;
  __device__ const T& operator[](unsigned i) const { return items[i]; }
};

template <class T>
__global__ void store_list(const __grid_constant__ InParameters<T> list, unsigned count, T* to) {
  if (threadIdx.x < count) to[threadIdx.x] = list[threadIdx.x];
}

/// Calls at(0), at(1), ... once each for the items and then give(list), which launches the kernel that reads them.
template <class T, class At, class Give>
void with_list(Place& place, std::size_t count, At at, Give give) {
  InParameters<T> few{};
  if (count <= kMostInParameters) {
    for (std::size_t i = 0; i < count; ++i) few.items[i] = at(i);
    return give(few);
  }
  const Workspace::Scope scope(place.workspace());
  const View<T> all = place.workspace().take<T>(count);
  const Launch launch(place, "a list of items");
  for (std::size_t begin = 0; begin < count; begin += kMostInParameters) {
    const std::size_t size = std::min<std::size_t>(kMostInParameters, count - begin);
    for (std::size_t i = 0; i < size; ++i) few.items[i] = at(begin + i);
    store_list<T><<<1, kMostInParameters, 0, launch.stream()>>>(few, static_cast<unsigned>(size), all.data() + begin);
    launch.check();
  }
  give(InMemory<T>{all.data()});
}
#endif

}  // namespace laconic::cuda
