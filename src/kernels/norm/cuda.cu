#include <limits>

#include "base/cuda/parts.h"
#include "base/workspace.h"
#include "kernels/convert/cuda/numbers.h"
#include "kernels/norm/loops.h"

// Twins of kernels/norm. A chain of additions belongs to one thread, so that its order is the reference's.

namespace laconic::cuda {
namespace {

constexpr unsigned kSums = 16;  ///< of a block of kNormBlock entries
constexpr unsigned kRows = 16;  ///< entries of one sum that are under way at once
constexpr unsigned kTile = 1024;
constexpr unsigned kAllLanes = 0xFFFF'FFFFU;

__host__ __device__ std::uint64_t norm_blocks(std::uint64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

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

/// A view and where its result goes.
template <class Number, class Result>
struct Part {
  const Number* values;
  std::uint64_t n;
  Result* result;
};

constexpr unsigned kBlocksOfThreads = kThreads / kSums;  ///< blocks of entries that a block of threads adds up

/// Sixteen threads a block of entries, a thread a sum; neighbours read neighbours. A part's sums follow each other,
/// from kBlocksOfThreads times its first block of threads on.
template <class Number, class Result>
__global__ void block_squares_kernel(const __grid_constant__ Parts<Part<Number, Result>> parts, double* sums) {
  const unsigned number = parts.of_block();
  const Number* values = parts.items[number].values;
  const std::uint64_t n = parts.items[number].n;
  const std::uint64_t block = std::uint64_t{parts.block_in(number)} * kBlocksOfThreads + threadIdx.x / kSums;
  const std::uint64_t begin = block * kNormBlock;
  const unsigned lane = threadIdx.x % kSums;
  double sum = 0.0;
  if (begin + kNormBlock <= n) {
    const Number* column = values + begin + lane;
    for (unsigned row = 0; row < kNormBlock / kSums; row += kRows) {
      Number rows[kRows];
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) rows[i] = column[(row + i) * kSums];
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        const double value = widened(rows[i]);
        sum += value * value;
      }
    }
  } else {
    for (std::uint64_t i = begin + lane; i < n; i += kSums) {
      const double value = widened(values[i]);
      sum += value * value;
    }
  }
  for (unsigned half = kSums / 2; half > 0; half /= 2) sum += __shfl_down_sync(kAllLanes, sum, half, kSums);
  if (lane == 0 && begin < n) sums[thread_index() / kSums] = sum;
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

/// Magnitudes as bits, in which order Inf is above all numbers and NaN above Inf. A block of threads has a block of
/// entries.
template <class Number>
__global__ void block_largest_kernel(const __grid_constant__ Parts<Part<Number, float>> parts, std::uint32_t* largest) {
  const unsigned number = parts.of_block();
  const Number* values = parts.items[number].values;
  const std::uint64_t n = parts.items[number].n;
  const std::uint64_t begin = std::uint64_t{parts.block_in(number)} * kNormBlock + threadIdx.x;
  std::uint32_t most = 0;
#pragma unroll 8
  for (unsigned step = 0; step < kNormBlock / kThreads; ++step) {
    const std::uint64_t i = begin + step * kThreads;
    if (i < n) most = max(most, __float_as_uint(widened(values[i])) & 0x7FFF'FFFFU);
  }
  most = largest_of_block(most);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

// What follows from the blocks' results: one block of threads a part.

/// The sum of a part's sums, in its first thread.
template <class Number, class Result>
__device__ double sum_of_part(const Parts<Part<Number, Result>>& parts, const double* sums) {
  const double* mine = sums + std::uint64_t{parts.first_block[blockIdx.x]} * kBlocksOfThreads;
  return sum_in_order(norm_blocks(parts.items[blockIdx.x].n), [=](std::uint64_t i) { return mine[i]; });
}

template <class Number>
__device__ void store_norm(float value, const Parts<Part<Number, float>>& parts, Status* status) {
  *parts.items[blockIdx.x].result = value;
  if (blockIdx.x + 1 == parts.count) status->norm = value;
  if (is_nonfinite(value)) status->nonfinite = 1;
}

template <class Number>
__global__ void finish_squares_kernel(const __grid_constant__ Parts<Part<Number, double>> parts, const double* sums,
                                      Status* status) {
  const double total = canonical(sum_of_part(parts, sums));
  if (threadIdx.x != 0) return;
  *parts.items[blockIdx.x].result = total;
  if (!(total <= std::numeric_limits<double>::max())) status->nonfinite = 1;
}

template <class Number>
__global__ void finish_l2_kernel(const __grid_constant__ Parts<Part<Number, float>> parts, const double* sums,
                                 Status* status) {
  const double total = sum_of_part(parts, sums);
  if (threadIdx.x == 0) store_norm(canonical(static_cast<float>(__dsqrt_rn(total))), parts, status);
}

template <class Number>
__global__ void finish_max_kernel(const __grid_constant__ Parts<Part<Number, float>> parts, const std::uint32_t* largest,
                                  Status* status) {
  const std::uint32_t* mine = largest + parts.first_block[blockIdx.x];
  const std::uint64_t blocks = norm_blocks(parts.items[blockIdx.x].n);
  std::uint32_t most = 0;
#pragma unroll 8
  for (std::uint64_t i = threadIdx.x; i < blocks; i += kThreads) most = max(most, mine[i]);
  most = largest_of_block(most);
  if (threadIdx.x == 0) store_norm(canonical(__uint_as_float(most)), parts, status);
}

__global__ void finish_mean_kernel(const double* sums, std::uint64_t blocks, std::uint64_t n, float* result) {
  const double total = sum_in_order(blocks, [=](std::uint64_t i) { return sums[i]; });
  if (threadIdx.x == 0) *result = static_cast<float>(total / static_cast<double>(n));
}

// Fixed scopes: neighbouring threads share one, and a block of threads has several.

/// kLanes threads per scope.
template <unsigned kLanes, class Number>
__global__ void scope_largest_kernel(const Number* values, std::uint64_t n, std::uint64_t scope, float* norms,
                                     Status* status) {
  static_assert(kLanes == kWarp || kLanes == kThreads);
  const std::uint64_t number = thread_index() / kLanes;
  const std::uint64_t begin = number * scope;
  const std::uint64_t end = n < begin + scope ? n : begin + scope;
  std::uint32_t most = 0;
#pragma unroll 8
  for (std::uint64_t i = begin + threadIdx.x % kLanes; i < end; i += kLanes) {
    most = max(most, __float_as_uint(widened(values[i])) & 0x7FFF'FFFFU);
  }
  if constexpr (kLanes == kThreads) {
    most = largest_of_block(most);
  } else {
    most = __reduce_max_sync(kAllLanes, most);
  }
  if (threadIdx.x % kLanes != 0 || begin >= n) return;
  const float norm = canonical(__uint_as_float(most));
  norms[number] = norm;
  if (is_nonfinite(norm)) status->nonfinite = 1;
}

/// Sixteen threads per scope, a thread a sum of each block of entries.
template <class Number>
__global__ void scope_l2_kernel(const Number* values, std::uint64_t n, std::uint64_t scope, float* norms,
                                Status* status) {
  const std::uint64_t number = thread_index() / kSums;
  const unsigned lane = threadIdx.x % kSums;
  const std::uint64_t first = number * scope;
  const std::uint64_t end = n < first + scope ? n : first + scope;
  double total = 0.0;
  for (std::uint64_t block = 0; block < scope; block += kNormBlock) {
    const std::uint64_t begin = first + block;
    const std::uint64_t stop = end < begin + kNormBlock ? end : begin + kNormBlock;
    double sum = 0.0;
#pragma unroll 8
    for (std::uint64_t i = begin + lane; i < stop; i += kSums) {
      const double value = widened(values[i]);
      sum += value * value;
    }
    for (unsigned half = kSums / 2; half > 0; half /= 2) sum += __shfl_down_sync(kAllLanes, sum, half, kSums);
    if (begin < end) total += sum;
  }
  if (lane != 0 || first >= n) return;
  const float norm = canonical(static_cast<float>(__dsqrt_rn(total)));
  norms[number] = norm;
  if (is_nonfinite(norm)) status->nonfinite = 1;
}

/// One chain over all entries, as the reference has it.
__global__ void squared_distance_kernel(const float* x, const float* y, std::uint64_t n, double* result) {
  const double total = sum_in_order(n, [=](std::uint64_t i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    return difference * difference;
  });
  if (threadIdx.x == 0) *result = total;
}

/// Gives the parts to `give` in batches. An empty part has a block all the same, since it has a result.
template <class Number, class Result, class EachPart, class Give>
void in_batches(EachPart parts, std::uint64_t entries_of_block, Give give) {
  PartBatches<Part<Number, Result>, Give> batches(give);
  parts([&](const auto& part) {
    const std::uint64_t blocks = (part.values.size() + entries_of_block - 1) / entries_of_block;
    const auto* values = reinterpret_cast<const Number*>(part.values.data());
    batches.add({values, part.values.size(), part.result.data()}, blocks == 0 ? 1 : blocks);
  });
  batches.finish();
}

/// The sums of squares of the blocks of all parts, then `finish`, which makes the parts' results of them.
template <class Number, class Result, class EachPart>
void add_squares(Place& place, const char* name, EachPart parts,
                 void (*finish)(Parts<Part<Number, Result>>, const double*, Status*), StatusView status) {
  const Launch launch(place, name);
  const auto give = [&](const Parts<Part<Number, Result>>& batch, unsigned blocks) {
    const Workspace::Scope scope(place.workspace());
    const View<double> sums = place.workspace().take<double>(std::uint64_t{blocks} * kBlocksOfThreads);
    block_squares_kernel<Number, Result><<<blocks, kThreads, 0, launch.stream()>>>(batch, sums.data());
    launch.check();
    finish<<<batch.count, kThreads, 0, launch.stream()>>>(batch, sums.data(), status.data());
    launch.check();
  };
  in_batches<Number, Result>(parts, kBlocksOfThreads * kNormBlock, give);
}

template <class Number>
void largest_magnitudes(Place& place, Each<NormPart> parts, StatusView status) {
  const Launch launch(place, "norm");
  in_batches<Number, float>(parts, kNormBlock, [&](const Parts<Part<Number, float>>& batch, unsigned blocks) {
    const Workspace::Scope scope(place.workspace());
    const View<std::uint32_t> largest = place.workspace().take<std::uint32_t>(blocks);
    block_largest_kernel<Number><<<blocks, kThreads, 0, launch.stream()>>>(batch, largest.data());
    launch.check();
    finish_max_kernel<Number><<<batch.count, kThreads, 0, launch.stream()>>>(batch, largest.data(), status.data());
    launch.check();
  });
}

}  // namespace

void norms(Place& place, Each<NormPart> parts, Norm kind, StatusView status) {
  with_number_of(parts, [&]<class Number>(Number) {
    if (kind == Norm::max) return largest_magnitudes<Number>(place, parts, status);
    add_squares<Number, float>(place, "norm", parts, finish_l2_kernel<Number>, status);
  });
}

void scope_norms(Place& place, ConstGradientView values, std::uint64_t scope, Norm kind, View<float> norms,
                 StatusView status) {
  if (norms.empty()) return;
  const Launch launch(place, "scope_norms");
  with_numbers(values, [&]<class Number>(const Number* from) {
    const auto run = [&](auto* kernel, unsigned threads_of_scope) {
      const auto blocks = static_cast<unsigned>((norms.size() * threads_of_scope + kThreads - 1) / kThreads);
      kernel<<<blocks, kThreads, 0, launch.stream()>>>(from, values.size(), scope, norms.data(), status.data());
      launch.check();
    };
    if (kind == Norm::l2) return run(scope_l2_kernel<Number>, kSums);
    if (scope <= 1'024) return run(scope_largest_kernel<kWarp, Number>, kWarp);
    run(scope_largest_kernel<kThreads, Number>, kThreads);
  });
}

void sums_of_squares(Place& place, Each<SquaresPart> parts, StatusView status) {
  with_number_of(parts, [&]<class Number>(Number) {
    add_squares<Number, double>(place, "sum_of_squares", parts, finish_squares_kernel<Number>, status);
  });
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
