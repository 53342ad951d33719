#include <limits>

#include "base/cuda/launch.h"
#include "base/workspace.h"
#include "kernels/norm/loops.h"

// Twins of kernels/norm. A chain of additions belongs to one thread, so that its order is the reference's.

namespace laconic::cuda {
namespace {

constexpr unsigned kSums = 16;  ///< of a block of kNormBlock entries
constexpr unsigned kRows = 16;  ///< entries of one sum that are under way at once
constexpr unsigned kTile = 1024;
constexpr unsigned kAllLanes = 0xFFFF'FFFFU;

std::uint64_t norm_blocks(std::uint64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

// A result that is not a number has one bit pattern, as in norm.cpp.
__device__ float canonical(float value) { return value == value ? value : __uint_as_float(0x7FC0'0000U); }
__device__ double canonical(double value) {
  return value == value ? value : __longlong_as_double(0x7FF8'0000'0000'0000LL);
}

/// at(0) + at(1) + ... + at(n - 1), one after another from 0. All threads of a block fetch, its first thread adds and
/// gets the sum.
template <class At>
__device__ double sum_in_order(std::uint64_t n, At at) {
  __shared__ double tile[kTile];
  double total = 0.0;
  for (std::uint64_t begin = 0; begin < n; begin += kTile) {
    const auto count = static_cast<unsigned>(n - begin < kTile ? n - begin : kTile);
    for (unsigned i = threadIdx.x; i < count; i += kThreads) tile[i] = at(begin + i);
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (unsigned i = 0; i < count; ++i) total += tile[i];
    }
    __syncthreads();
  }
  return total;
}

/// Sixteen threads a block of entries, a thread a sum; neighbours read neighbours.
__global__ void block_squares_kernel(const float* values, std::uint64_t n, double* sums) {
  const std::uint64_t begin = thread_index() / kSums * kNormBlock;
  const unsigned lane = threadIdx.x % kSums;
  double sum = 0.0;
  if (begin + kNormBlock <= n) {
    const float* column = values + begin + lane;
    for (unsigned row = 0; row < kNormBlock / kSums; row += kRows) {
      float rows[kRows];
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) rows[i] = column[(row + i) * kSums];
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        const double value = rows[i];
        sum += value * value;
      }
    }
  } else {
    for (std::uint64_t i = begin + lane; i < n; i += kSums) {
      const double value = values[i];
      sum += value * value;
    }
  }
  for (unsigned half = kSums / 2; half > 0; half /= 2) sum += __shfl_down_sync(kAllLanes, sum, half, kSums);
  if (lane == 0 && begin < n) sums[begin / kNormBlock] = sum;
}

__global__ void block_magnitudes_kernel(const float* values, std::uint64_t n, double* sums) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kNormBlock;
  const std::uint64_t count = n - begin < kNormBlock ? n - begin : kNormBlock;
  const auto magnitude_at = [=](std::uint64_t i) { return static_cast<double>(fabsf(values[begin + i])); };
  const double sum = sum_in_order(count, magnitude_at);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// The largest of a word of each thread, in the first thread.
__device__ std::uint32_t largest_of_block(std::uint32_t mine) {
  __shared__ std::uint32_t warps[kThreads / kWarp];
  mine = __reduce_max_sync(kAllLanes, mine);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  for (const std::uint32_t warp : warps) mine = max(mine, warp);
  return mine;
}

/// Magnitudes as bits, in which order Inf is above all numbers and NaN above Inf.
__global__ void block_largest_kernel(const float* values, std::uint64_t n, std::uint32_t* largest) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kNormBlock + threadIdx.x;
  std::uint32_t most = 0;
#pragma unroll 8
  for (unsigned step = 0; step < kNormBlock / kThreads; ++step) {
    const std::uint64_t i = begin + step * kThreads;
    if (i < n) most = max(most, __float_as_uint(values[i]) & 0x7FFF'FFFFU);
  }
  most = largest_of_block(most);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

// What follows from the blocks' results: one block of threads.

__device__ void store_norm(float value, float* result, Status* status) {
  *result = value;
  status->norm = value;
  if (is_nonfinite(value)) status->nonfinite = 1;
}

__global__ void finish_squares_kernel(const double* sums, std::uint64_t blocks, double* result, Status* status) {
  const double total = canonical(sum_in_order(blocks, [=](std::uint64_t i) { return sums[i]; }));
  if (threadIdx.x != 0) return;
  *result = total;
  if (!(total <= std::numeric_limits<double>::max())) status->nonfinite = 1;
}

__global__ void finish_l2_kernel(const double* sums, std::uint64_t blocks, float* result, Status* status) {
  const double total = sum_in_order(blocks, [=](std::uint64_t i) { return sums[i]; });
  if (threadIdx.x == 0) store_norm(canonical(static_cast<float>(__dsqrt_rn(total))), result, status);
}

__global__ void finish_max_kernel(const std::uint32_t* largest, std::uint64_t blocks, float* result, Status* status) {
  std::uint32_t most = 0;
#pragma unroll 8
  for (std::uint64_t i = threadIdx.x; i < blocks; i += kThreads) most = max(most, largest[i]);
  most = largest_of_block(most);
  if (threadIdx.x == 0) store_norm(canonical(__uint_as_float(most)), result, status);
}

__global__ void finish_mean_kernel(const double* sums, std::uint64_t blocks, std::uint64_t n, float* result) {
  const double total = sum_in_order(blocks, [=](std::uint64_t i) { return sums[i]; });
  if (threadIdx.x == 0) *result = static_cast<float>(total / static_cast<double>(n));
}

/// One chain over all entries, as the reference has it.
__global__ void squared_distance_kernel(const float* x, const float* y, std::uint64_t n, double* result) {
  const double total = sum_in_order(n, [=](std::uint64_t i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    return difference * difference;
  });
  if (threadIdx.x == 0) *result = total;
}

/// Scratch that the caller's scope gives back.
View<double> block_squares(Place& place, const Launch& launch, View<const float> values) {
  const View<double> sums = place.workspace().take<double>(norm_blocks(values.size()));
  if (values.empty()) return sums;
  block_squares_kernel<<<blocks_for(sums.size() * kSums, 1), kThreads, 0, launch.stream()>>>(
      values.data(), values.size(), sums.data());
  launch.check();
  return sums;
}

void largest_magnitude(Place& place, View<const float> values, View<float> result, StatusView status) {
  const Launch launch(place, "norm");
  const View<std::uint32_t> largest = place.workspace().take<std::uint32_t>(norm_blocks(values.size()));
  if (!values.empty()) {
    block_largest_kernel<<<static_cast<unsigned>(largest.size()), kThreads, 0, launch.stream()>>>(
        values.data(), values.size(), largest.data());
    launch.check();
  }
  finish_max_kernel<<<1, kThreads, 0, launch.stream()>>>(largest.data(), largest.size(), result.data(), status.data());
  launch.check();
}

}  // namespace

void norm(Place& place, View<const float> values, Norm kind, View<float> result, StatusView status) {
  const Workspace::Scope scope(place.workspace());
  if (kind == Norm::max) return largest_magnitude(place, values, result, status);
  const Launch launch(place, "norm");
  const View<double> sums = block_squares(place, launch, values);
  finish_l2_kernel<<<1, kThreads, 0, launch.stream()>>>(sums.data(), sums.size(), result.data(), status.data());
  launch.check();
}

void sum_of_squares(Place& place, View<const float> values, View<double> result, StatusView status) {
  const Workspace::Scope scope(place.workspace());
  const Launch launch(place, "sum_of_squares");
  const View<double> sums = block_squares(place, launch, values);
  finish_squares_kernel<<<1, kThreads, 0, launch.stream()>>>(sums.data(), sums.size(), result.data(), status.data());
  launch.check();
}

void squared_distance(Place& place, View<const float> x, View<const float> y, View<double> result) {
  const Launch launch(place, "squared_distance");
  squared_distance_kernel<<<1, kThreads, 0, launch.stream()>>>(x.data(), y.data(), x.size(), result.data());
  launch.check();
}

void mean_magnitude(Place& place, View<const float> values, View<float> result) {
  const Workspace::Scope scope(place.workspace());
  const Launch launch(place, "mean_magnitude");
  const View<double> sums = place.workspace().take<double>(norm_blocks(values.size()));
  block_magnitudes_kernel<<<static_cast<unsigned>(sums.size()), kThreads, 0, launch.stream()>>>(
      values.data(), values.size(), sums.data());
  launch.check();
  finish_mean_kernel<<<1, kThreads, 0, launch.stream()>>>(sums.data(), sums.size(), values.size(), result.data());
  launch.check();
}

}  // namespace laconic::cuda
