// The emulation of CUDA itself: what it computes, and that it finds the faults that it promises to find.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/device_array.h"
#include "emulation/faults.h"

namespace laconic::test {
namespace {

TEST(EmulationDeathTest, NamesWhoWaitsInABarrierForEver) {
  EXPECT_DEATH(some_threads_miss_a_barrier(),
               "kernel missed_barrier_kernel, launched at .*faults.cu:[0-9]+, block \\(0, 0, 0\\), has threads that "
               "wait for others for ever\n  threads 0 to 39 wait in __syncthreads at .*faults.cu:[0-9]+, in .*\n"
               "  threads 40 to 63 have returned");
  EXPECT_DEATH(threads_meet_in_different_barriers(), "different_barriers_kernel.* has threads in different barriers");
  EXPECT_DEATH(a_lane_returns_before_the_ballot(),
               "early_return_kernel<31>(.|\n)*threads 0 to 30 wait in __ballot_sync with mask FFFFFFFF");
}

TEST(EmulationDeathTest, HostAndDeviceDoNotTouchEachOthersMemory) {
  EXPECT_DEATH(a_kernel_gets_a_cpu_pointer(), "argument 1 of kernel store_kernel points to CPU memory");
  const DeviceArray<int> values(100);
  EXPECT_DEATH(*const_cast<volatile int*>(values.view().data()) = 1, "the CPU touched device memory");
}

TEST(EmulationDeathTest, KernelsThatOverlapWaitInEveryThread) {
  launch_overlapped(64, true);
  launch_overlapped(0, false);
  for (const unsigned waiting : {0U, 32U, 63U}) {
    EXPECT_DEATH(launch_overlapped(waiting, true), "returned without having waited for the launch before")
        << waiting << " of 64 threads wait";
  }
}

TEST(Emulation, RefusesWhatADeviceRefuses) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  a_kernel_does_too_much(1025, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "asking clears it";
  a_kernel_does_too_much(1024, (48 << 10) + 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  int here = 0;
  const DeviceArray<int> there(1);
  EXPECT_EQ(cudaMemcpy(&here, &here, sizeof(here), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(there.view().data(), &here, sizeof(here), cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&here), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(Emulation, SharedMemoryIsOfOneBlock) {
  for (const unsigned count : {1U, 31U, 64U, 1000U, 1024U}) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0U);
    const DeviceArray<std::uint32_t> device(values);
    reverse_in_shared_memory(device.view().data(), count);
    EXPECT_EQ(device.values(), std::vector<std::uint32_t>(values.rbegin(), values.rend())) << count;
  }
  const DeviceArray<std::uint32_t> device(64);
  uninitialised_shared(device.view().data());
  EXPECT_EQ(device.values(), std::vector<std::uint32_t>(64, 0xDBDB'DBDBU));
}

TEST(Emulation, AMissingBarrierShowsInEveryOtherBlock) {
  int wrong = 0;
  for (int launch = 0; launch < 4; ++launch) {
    const DeviceArray<std::uint32_t> device(64);
    a_thread_reads_without_a_barrier(device.view().data());
    wrong += device.values() != std::vector<std::uint32_t>(64, 7U);
  }
  EXPECT_EQ(wrong, 2);
}

TEST(Emulation, WarpsMeet) {
  const DeviceArray<std::uint32_t> device(32 * kWarpResults);
  warp_results(device.view().data());
  const auto found = device.values();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t in_group = lane % 8;
    const std::vector<std::uint32_t> expected{0x4924'9249U,
                                              (lane + 1) % 32 * 10,
                                              10 * (in_group < 3 ? lane : lane - 3),
                                              10 * (in_group > 4 ? lane : lane + 3),
                                              10 * (lane ^ 5U),
                                              496,
                                              static_cast<std::uint32_t>(-7),
                                              0xFU << lane / 4 * 4,
                                              lane < 16 ? 15U : 84U};
    const auto begin = found.begin() + lane * kWarpResults;
    EXPECT_EQ(std::vector<std::uint32_t>(begin, begin + kWarpResults), expected) << "lane " << lane;
  }
}

TEST(Emulation, BlocksMeet) {
  const DeviceArray<int> device(3 * 64);
  block_results(device.view().data());
  const auto found = device.values();
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(found[3 * i], 16);
    EXPECT_EQ(found[3 * i + 1], 0);
    EXPECT_EQ(found[3 * i + 2], 1);
  }
}

TEST(Emulation, BlocksRunInOrderAndThreadsOfTheHostLaunchAtOnce) {
  constexpr unsigned kBlocks = 200;
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host) {
    hosts.emplace_back([] {
      const DeviceArray<unsigned> total(std::vector<unsigned>{0});
      const DeviceArray<unsigned> order(kBlocks);
      count_in_blocks(total.view().data(), order.view().data(), kBlocks);
      EXPECT_EQ(total.values()[0], kBlocks * 96);
      const auto seen = order.values();
      for (unsigned block = 0; block < kBlocks; ++block) EXPECT_EQ(seen[block], block * 96);
    });
  }
  for (std::thread& host : hosts) host.join();
}

TEST(Emulation, NewMemoryIsGarbage) {
  void* device = nullptr;
  void* pinned = nullptr;
  cuda::check(cudaMalloc(&device, 100), "cudaMalloc");
  cuda::check(cudaMallocHost(&pinned, 100), "cudaMallocHost");
  const std::vector<unsigned char> garbage(100, 0xDB);
  EXPECT_EQ(std::memcmp(pinned, garbage.data(), garbage.size()), 0);
  std::memset(pinned, 0, 100);
  cuda::check(cudaMemcpy(pinned, device, 100, cudaMemcpyDeviceToHost), "cudaMemcpy");
  EXPECT_EQ(std::memcmp(pinned, garbage.data(), garbage.size()), 0);
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, pinned), "cudaPointerGetAttributes");
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  cuda::check(cudaPointerGetAttributes(&attributes, &attributes), "cudaPointerGetAttributes");
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Emulation, ACopyToPinnedMemoryArrivesWhenItIsWaitedFor) {
  const std::vector<unsigned char> sent(100, 7);
  const std::vector<unsigned char> garbage(100, 0xDB);
  const DeviceArray<unsigned char> device(sent);
  void* pinned = nullptr;
  cudaStream_t stream{};
  cudaStream_t other{};
  cuda::check(cudaMallocHost(&pinned, 100), "cudaMallocHost");
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  cuda::check(cudaStreamCreate(&other), "cudaStreamCreate");
  for (int round = 0; round < 2; ++round) {
    cuda::check(cudaMemcpyAsync(pinned, device.view().data(), 100, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(other), "cudaStreamSynchronize");
    EXPECT_EQ(std::memcmp(pinned, garbage.data(), 100), 0) << "it was there before its stream was waited for";
    cuda::check(round == 0 ? cudaStreamSynchronize(stream) : cudaDeviceSynchronize(), "wait");
    EXPECT_EQ(std::memcmp(pinned, sent.data(), 100), 0);
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  cuda::check(cudaStreamDestroy(other), "cudaStreamDestroy");
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Emulation, AStreamWorksWhenItIsWaitedFor) {
  const DeviceArray<unsigned> total(std::vector<unsigned>{0});
  const DeviceArray<unsigned> order(std::vector<unsigned>{0});
  unsigned* const device = total.view().data();
  unsigned found = 0;
  cudaStream_t stream{};
  cudaStream_t other{};
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cuda::check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const auto copy_on = [&](cudaStream_t which) {
    cuda::check(cudaMemcpyAsync(&found, device, sizeof(found), cudaMemcpyDeviceToHost, which), "cudaMemcpyAsync");
  };
  count_in_blocks(device, order.view().data(), 1, stream);
  copy_on(other);
  EXPECT_EQ(found, 0U) << "a stream that did not wait for the launch saw what it wrote";
  copy_on(stream);
  EXPECT_EQ(found, 96U) << "a copy comes after the launch in its stream";
  cuda::check(cudaMemsetAsync(device, 0, sizeof(found), stream), "cudaMemsetAsync");
  copy_on(other);
  EXPECT_EQ(found, 96U);
  cudaEvent_t event{};
  cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  cuda::check(cudaEventRecord(event, stream), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(other, event, 0), "cudaStreamWaitEvent");
  copy_on(other);
  EXPECT_EQ(found, 0U) << "a stream that waited for the event did not see what was before it";
  count_in_blocks(device, order.view().data(), 1, stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << "each question gets one piece of work done";
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  copy_on(other);
  EXPECT_EQ(found, 96U);
  cuda::check(cudaEventDestroy(event), "cudaEventDestroy");
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  cuda::check(cudaStreamDestroy(other), "cudaStreamDestroy");
}

}  // namespace
}  // namespace laconic::test
