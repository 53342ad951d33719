#pragma once

// Kernels with faults that the emulation must find, and kernels whose results the emulation must get right.

#include <cuda_runtime.h>

#include <cstdint>

namespace laconic::test {

void some_threads_miss_a_barrier();
void threads_meet_in_different_barriers();
void a_lane_returns_before_the_ballot();
void a_kernel_gets_a_cpu_pointer();
void a_kernel_does_too_much(unsigned threads, unsigned dynamic_shared_bytes);

/// Three blocks of 64 threads. In each the first `waiting` threads wait twice for the launch before.
void launch_overlapped(unsigned waiting, bool may_overlap);

/// Each takes device memory of one block of threads.
void reverse_in_shared_memory(std::uint32_t* values, unsigned count);
void warp_results(std::uint32_t* results);      ///< 32 lanes times kWarpResults
void block_results(int* results);               ///< 64 threads times 3: the count, whether all, whether any
void uninitialised_shared(std::uint32_t* results);  ///< 64 words
void a_thread_reads_without_a_barrier(std::uint32_t* results);  ///< 64 words: what thread 0 writes
void count_in_blocks(unsigned* total, unsigned* order, unsigned blocks, cudaStream_t stream = nullptr);

inline constexpr unsigned kWarpResults = 9;

}  // namespace laconic::test
