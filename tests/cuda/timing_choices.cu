// cuda_timing choices [entries]: what alternatives to the choices of docs/decisions/010 would cost. Here: what a call
// costs, how the CPU hears of a result, and a stream beside arithmetic. timing_residuals.cu: one residual or two.

#include <cooperative_groups.h>

#include <atomic>
#include <chrono>

#include "cuda/timing.h"
#include "kernels/checksum/checksum.h"
#include "kernels/checksum/loops.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic::test {
namespace {

using cuda::kThreads;

constexpr unsigned kNoticeWords = 16;

/// The first word comes last: who sees it may read the others.
__global__ void notice_kernel(std::uint32_t round, std::uint32_t* words) {
  if (threadIdx.x > 0) words[threadIdx.x] = round;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *static_cast<volatile std::uint32_t*>(words) = round;
}

__global__ void empty_kernel() {}
__global__ void meeting_kernel() { cooperative_groups::this_grid().sync(); }

/// Four chains of fused multiplications and additions per thread: no memory, all of an SM's arithmetic.
__global__ void __launch_bounds__(kThreads, 8) burn_kernel(unsigned steps, float factor, float* sink) {
  float chains[4] = {1.0F, 2.0F, 3.0F, static_cast<float>(threadIdx.x)};
#pragma unroll 16
  for (unsigned step = 0; step < steps; ++step) {
    for (float& chain : chains) chain = __fmaf_rn(chain, factor, 0.5F);
  }
  if (chains[0] + chains[1] + chains[2] + chains[3] < 0.0F) *sink = chains[0];  // never
}

int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  return count;
}

/// Two events around work on a place's stream.
struct Span {
  cudaEvent_t begin, end;

  Span() {
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
  }
  template <class Run>
  void around(Place& place, Run run) {
    check(cudaEventRecord(begin, cuda_stream(place)), "cudaEventRecord");
    run();
    check(cudaEventRecord(end, cuda_stream(place)), "cudaEventRecord");
  }
};

float between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return milliseconds;
}

void wait(Place& place) { check(cudaStreamSynchronize(cuda_stream(place)), "cudaStreamSynchronize"); }

/// Microseconds of run() on an idle device: the CPU's until run returns, and the stream's.
template <class Run>
void time_call(Place& place, const std::string& name, Run run) {
  Span span;
  std::vector<float> host, stream;
  for (int repeat = -5; repeat < kRepeats; ++repeat) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<float, std::micro> time = std::chrono::steady_clock::now() - begin;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    span.around(place, run);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (repeat < 0) continue;
    host.push_back(time.count());
    stream.push_back(1000.0F * between(span.begin, span.end));
  }
  const float best = *std::min_element(host.begin(), host.end());
  std::printf("%-44s %10.2f %10.2f %10.2f\n", name.c_str(), median(host), best, median(stream));
}

/// A notice of 64 bytes that a kernel writes, in mapped memory or copied from the device's.
class Notice {
 public:
  explicit Notice(Place& place) : place_(place) {
    check(cudaHostAlloc(&pinned_, kNoticeWords * sizeof(std::uint32_t), cudaHostAllocMapped), "cudaHostAlloc");
    std::fill(pinned_, pinned_ + kNoticeWords, 0U);
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void write_mapped() { write(pinned_); }
  void write_and_copy() {
    write(device_.data());
    check(cudaMemcpyAsync(pinned_, device_.data(), device_.size_bytes(), cudaMemcpyDeviceToHost, cuda_stream(place_)),
          "cudaMemcpyAsync");
  }
  void wait_for_event() {
    check(cudaEventRecord(event_, cuda_stream(place_)), "cudaEventRecord");
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  void spin() {
    const std::atomic_ref<std::uint32_t> first(pinned_[0]);
    for (std::uint32_t turn = 0; first.load(std::memory_order_acquire) != round_; ++turn) {
      require_equal(turn < 1U << 30, "notice that never came");
    }
  }
  void verify() { require_equal(std::count(pinned_, pinned_ + kNoticeWords, round_) == kNoticeWords, "notice"); }

 private:
  void write(std::uint32_t* words) {
    const cuda::Launch launch(place_, "notice");
    notice_kernel<<<1, kNoticeWords, 0, launch.stream()>>>(++round_, words);
    launch.check();
  }

  Place& place_;
  std::uint32_t round_ = 0;
  std::uint32_t* pinned_ = nullptr;
  cudaEvent_t event_ = nullptr;
  View<std::uint32_t> device_ = device_view<std::uint32_t>(kNoticeWords);
};

void time_notices(Place& place) {
  Notice notice(place);
  time_call(place, "notice in mapped memory, spinning", [&] {
    notice.write_mapped();
    notice.spin();
    notice.verify();
  });
  time_call(place, "notice in mapped memory, stream's wait", [&] {
    notice.write_mapped();
    wait(place);
    notice.verify();
  });
  time_call(place, "notice by copy of 64 bytes, stream's wait", [&] {
    notice.write_and_copy();
    wait(place);
    notice.verify();
  });
  time_call(place, "notice by copy of 64 bytes, event's wait", [&] {
    notice.write_and_copy();
    notice.wait_for_event();
    notice.verify();
  });
}

void time_checksums(Place& place) {
  Place host;
  for (const std::size_t kibibytes : {4, 16, 64, 1024}) {
    std::vector<std::byte> here(kibibytes * 1024);
    for (std::size_t i = 0; i < here.size(); ++i) here[i] = static_cast<std::byte>(i * 2'654'435'761U >> 13);
    const auto bytes = device_view<std::byte>(here.size());
    const auto result = device_view<std::uint32_t>(1);
    check(cudaMemcpy(bytes.data(), here.data(), here.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    const std::uint32_t expected = checksum(host, here);
    const std::string size = std::to_string(kibibytes) + " KiB";
    time_call(place, "checksum of " + size + ", front door",
              [&] { require_equal(checksum(place, bytes) == expected, "checksum"); });
    time_call(place, "checksum of " + size + ", kernels", [&] {
      cuda::checksum(place, bytes, nullptr, kNoHole, result);
      wait(place);
    });
    require_equal(fetch(result)[0] == expected, "checksum");
  }
}

void launch_empty(Place& place, unsigned blocks) {
  const cuda::Launch launch(place, "empty");
  empty_kernel<<<blocks, kThreads, 0, launch.stream()>>>();
  launch.check();
}

void launch_together(Place& place, void (*kernel)(), unsigned blocks) {
  const cuda::Launch launch(place, "cooperative");
  void* none[1] = {nullptr};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), blocks, kThreads, none, 0, launch.stream()),
        "cudaLaunchCooperativeKernel");
}

cudaGraphExec_t graph_of_empty(Place& place, int kernels, unsigned blocks) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check(cudaStreamBeginCapture(cuda_stream(place), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int kernel = 0; kernel < kernels; ++kernel) launch_empty(place, blocks);
  check(cudaStreamEndCapture(cuda_stream(place), &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  return made;
}

void time_launches(Place& place) {
  constexpr int kFive = 5;
  const auto blocks = static_cast<unsigned>(multiprocessors());
  const auto timed = [&](const char* name, auto launch) {
    time_call(place, std::string(name) + ", stream's wait", [&] {
      launch();
      wait(place);
    });
    time_call(place, std::string(name) + ", no wait", launch);
  };
  timed("empty kernel", [&] { launch_empty(place, blocks); });
  timed("empty cooperative", [&] { launch_together(place, empty_kernel, blocks); });
  timed("cooperative, blocks meet once", [&] { launch_together(place, meeting_kernel, blocks); });
  timed("five empty kernels", [&] {
    for (int kernel = 0; kernel < kFive; ++kernel) launch_empty(place, blocks);
  });
  const cudaGraphExec_t graph = graph_of_empty(place, kFive, blocks);
  timed("five as a graph", [&] { check(cudaGraphLaunch(graph, cuda_stream(place)), "cudaGraphLaunch"); });
}

/// Arithmetic on all SMs in waves of blocks. With as many threads as an SM has, or with shared memory for two blocks.
struct Arithmetic {
  const char* name;
  unsigned blocks_per_sm, shared_bytes;
  unsigned waves = 0;  ///< each takes about 20 microseconds on an H200

  void run(Place& place, View<float> sink) const {
    const cuda::Launch launch(place, "burn");
    check(
        cudaFuncSetAttribute(burn_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "cudaFuncSetAttribute");
    const unsigned blocks = static_cast<unsigned>(multiprocessors()) * blocks_per_sm * waves;
    burn_kernel<<<blocks, kThreads, shared_bytes, launch.stream()>>>(4096 / blocks_per_sm, 0.5F, sink.data());
    launch.check();
  }
};

/// The stream of 12 bytes per entry on `ours`, of high priority, and the arithmetic on `theirs`, which begins first.
void time_beside(Place& ours, Place& theirs, const Arithmetic& arithmetic, View<float> x, View<float> y) {
  const auto sink = device_view<float>(1);
  Span burn, stream;
  std::vector<float> burn_alone, stream_alone, burn_beside, stream_beside, whole;
  const auto measure = [&](bool burns, bool streams) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (burns) burn.around(theirs, [&] { arithmetic.run(theirs, sink); });
    if (streams) stream.around(ours, [&] { axpy(ours, 0.5F, x, y); });
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  };
  for (int repeat = -2; repeat < kRepeats; ++repeat) {
    if (repeat == 0) {
      for (auto* times : {&burn_alone, &stream_alone, &burn_beside, &stream_beside, &whole}) times->clear();
    }
    measure(true, false);
    burn_alone.push_back(between(burn.begin, burn.end));
    measure(false, true);
    stream_alone.push_back(between(stream.begin, stream.end));
    measure(true, true);
    burn_beside.push_back(between(burn.begin, burn.end));
    stream_beside.push_back(between(stream.begin, stream.end));
    whole.push_back(std::max(burn_beside.back(), between(burn.begin, stream.end)));
  }
  const float alone = median(burn_alone) + median(stream_alone);
  std::printf("%-20s %12zu %10.4f %10.4f %10.4f %10.4f %10.4f %10.2f\n", arithmetic.name, x.size(), median(burn_alone),
              median(burn_beside), median(stream_alone), median(stream_beside), median(whole), median(whole) / alone);
}

void time_beside_arithmetic(Place& ours, const std::vector<std::size_t>& sizes) {
  const auto theirs = cuda_place();
  const std::size_t most = *std::max_element(sizes.begin(), sizes.end());
  const auto x = device_view<float>(most), y = device_view<float>(most);
  for (const auto& view : {x, y}) check(cudaMemset(view.data(), 0, view.size_bytes()), "cudaMemset");
  std::printf("\n12 bytes per entry beside arithmetic, ms, medians of %d\n%-20s %12s %10s %10s %10s %10s %10s %10s\n",
              kRepeats, "arithmetic", "floats", "its alone", "its beside", "stream al.", "stream be.", "both", "x sum");
  for (const std::size_t n : sizes) {
    const auto waves = std::max(16U, static_cast<unsigned>(n / 1'600'000));  // about four times as long as the stream
    for (const Arithmetic& each :
         {Arithmetic{"8 blocks per SM", 8, 0, waves}, {"2 blocks per SM", 2, 100'000, waves}}) {
      time_beside(ours, *theirs, each, x.sub(0, n), y.sub(0, n));
    }
  }
}

/// The sizes that fit, as whole words of bits.
std::vector<std::size_t> fitting(const std::vector<std::size_t>& sizes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::vector<std::size_t> fit;
  for (const std::size_t n : sizes) {
    const bool fits = n <= UINT32_MAX && 22.0 * static_cast<double>(n) + 1e9 < static_cast<double>(free);
    if (fits) fit.push_back(n / 128 * 128);
    if (!fits) std::printf("%zu floats do not fit into the device's memory\n", n);
  }
  return fit;
}

}  // namespace

void time_choices(const std::vector<std::size_t>& wanted) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was measured stays if a later part fails
  const auto place = cuda_place({.high_priority = true});
  const std::vector<std::size_t> sizes = fitting(wanted);
  std::printf("%s, calls in microseconds, medians of %d\n", cuda_device_name().c_str(), kRepeats);
  std::printf("%-44s %10s %10s %10s\n", "call", "CPU", "best CPU", "stream");
  time_notices(*place);
  time_checksums(*place);
  time_launches(*place);
  if (sizes.empty()) return;
  time_beside_arithmetic(*place, sizes);
  time_residuals(*place, sizes);
}

}  // namespace laconic::test
