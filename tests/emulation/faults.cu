#include "emulation/faults.h"

namespace laconic::test {
namespace {

__global__ void missed_barrier_kernel() {
  if (threadIdx.x >= 40) return;
  __syncthreads();
}

__global__ void different_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

template <unsigned kLast>
__global__ void early_return_kernel() {
  if (threadIdx.x == kLast) return;
  static_cast<void>(__ballot_sync(0xFFFF'FFFFU, 1));
}

__global__ void store_kernel(int* to) { *to = 1; }
__global__ void nothing_kernel() {}

__global__ void waiting_kernel(unsigned waiting) {
  for (int times = 0; times < 2 && threadIdx.x < waiting; ++times) cudaGridDependencySynchronize();
}

__global__ void reverse_kernel(std::uint32_t* values) {
  extern __shared__ std::uint32_t tile[];
  tile[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void warp_kernel(std::uint32_t* results) {
  const unsigned all = 0xFFFF'FFFFU;
  const unsigned lane = threadIdx.x;
  std::uint32_t* const mine = results + lane * kWarpResults;
  mine[0] = __ballot_sync(all, lane % 3 == 0);
  mine[1] = __shfl_sync(all, lane * 10, static_cast<int>(lane) + 1);
  mine[2] = __shfl_up_sync(all, lane * 10, 3, 8);
  mine[3] = __shfl_down_sync(all, lane * 10, 3, 8);
  mine[4] = __shfl_xor_sync(all, lane * 10, 5);
  mine[5] = __reduce_add_sync(all, lane);
  mine[6] = static_cast<std::uint32_t>(__reduce_min_sync(all, static_cast<int>(lane) - 7));
  mine[7] = __match_any_sync(all, lane / 4);
  // Two halves that meet apart from each other, in another order.
  mine[8] = lane < 16 ? __reduce_max_sync(0x0000'FFFFU, lane) : __reduce_max_sync(0xFFFF'0000U, 100 - lane);
}

__global__ void block_kernel(int* results) {
  const int thread = static_cast<int>(threadIdx.x);
  results[3 * thread] = __syncthreads_count(thread % 4 == 0);
  results[3 * thread + 1] = __syncthreads_and(thread < 63);
  results[3 * thread + 2] = __syncthreads_or(thread == 63);
}

__global__ void uninitialised_kernel(std::uint32_t* results) {
  __shared__ std::uint32_t words[64];
  results[threadIdx.x] = words[threadIdx.x];
  words[threadIdx.x] = 7;
}

__global__ void no_barrier_kernel(std::uint32_t* results) {
  __shared__ std::uint32_t word;
  if (threadIdx.x == 0) word = 7;
  results[threadIdx.x] = word;
}

__global__ void count_kernel(unsigned* total, unsigned* order) {
  if (threadIdx.x == 0) order[blockIdx.x] = atomicAdd(total, 0U);
  __syncthreads();
  atomicAdd(total, 1U);
}

}  // namespace

void launch_overlapped(unsigned waiting, bool may_overlap) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 3;
  config.blockDim = 64;
  config.attrs = &overlap;
  config.numAttrs = may_overlap ? 1 : 0;
  static_cast<void>(cudaLaunchKernelEx(&config, waiting_kernel, waiting));
}

void some_threads_miss_a_barrier() { missed_barrier_kernel<<<1, 64>>>(); }
void threads_meet_in_different_barriers() { different_barriers_kernel<<<1, 64>>>(); }
void a_lane_returns_before_the_ballot() { early_return_kernel<31><<<1, 32>>>(); }
void a_kernel_gets_a_cpu_pointer() {
  int here = 0;
  store_kernel<<<1, 1>>>(&here);
}
void a_kernel_does_too_much(unsigned threads, unsigned dynamic_shared_bytes) {
  nothing_kernel<<<1, threads, dynamic_shared_bytes>>>();
}

void reverse_in_shared_memory(std::uint32_t* values, unsigned count) {
  reverse_kernel<<<1, count, count * sizeof(std::uint32_t)>>>(values);
}
void warp_results(std::uint32_t* results) { warp_kernel<<<1, 32>>>(results); }
void block_results(int* results) { block_kernel<<<1, 64>>>(results); }
void uninitialised_shared(std::uint32_t* results) {
  uninitialised_kernel<<<1, 64>>>(results);
  uninitialised_kernel<<<1, 64>>>(results);  // what the first wrote is not there any more
}
void a_thread_reads_without_a_barrier(std::uint32_t* results) { no_barrier_kernel<<<1, 64>>>(results); }
void count_in_blocks(unsigned* total, unsigned* order, unsigned blocks, cudaStream_t stream) {
  count_kernel<<<blocks, 96, 0, stream>>>(total, order);
}

}  // namespace laconic::test
