#pragma once

// What the parts of cuda_timing share: memory, and jobs that are timed with device events, in turn.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/cuda/launch.h"
#include "laconic/laconic.h"

namespace laconic::test {

inline constexpr int kRepeats = 21;

using cuda::check;

template <class T>
View<T> device_view(std::size_t count) {
  T* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");  // the end of the process frees it
  check(cudaMemset(memory, 0xEE, count * sizeof(T)), "cudaMemset");
  return {memory, count, Device::cuda};
}

template <class T>
std::vector<T> fetch(View<T> view) {
  std::vector<T> here(view.size());
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemcpy(here.data(), view.data(), view.size_bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return here;
}

inline void require_equal(bool equal, const char* what) {
  if (equal) return;
  std::printf("%s differs from the reference: no time counts\n", what);
  std::exit(1);
}

struct Job {
  std::string name;
  double bytes;  ///< that must move
  std::function<void()> run;
  std::vector<float> milliseconds;
  std::function<void()> before = [] {};  ///< given to the stream before the time begins
};

inline float median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

inline void time_all(Place& place, std::vector<Job>& jobs) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  for (int repeat = -2; repeat < kRepeats; ++repeat) {  // two to warm up
    for (Job& job : jobs) {
      job.before();
      check(cudaEventRecord(begin, cuda_stream(place)), "cudaEventRecord");
      job.run();
      check(cudaEventRecord(end, cuda_stream(place)), "cudaEventRecord");
      check(cudaEventSynchronize(end), "cudaEventSynchronize");
      float milliseconds = 0.0F;
      check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
      if (repeat >= 0) job.milliseconds.push_back(milliseconds);
    }
  }
}

/// Selections of n entries, beside a stream of 12 bytes per entry.
void time_selections(Place& place, std::size_t n);

/// Alternatives to the choices of docs/decisions/010: calls and notices, then for each number of entries that fits into
/// the device's memory a stream beside arithmetic, and time_residuals.
void time_choices(const std::vector<std::size_t>& sizes);

/// One residual or two, and ways to settle one, for multiples of 128 entries.
void time_residuals(Place& place, const std::vector<std::size_t>& sizes);

}  // namespace laconic::test
