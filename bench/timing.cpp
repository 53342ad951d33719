#include "bench/timing.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace laconic::bench {
namespace {

/// A run counts if it had this part of the cores that the best of its kind had. Kernels with a serial part have fewer
/// than there are threads, so each is compared with itself.
constexpr double kShareOfCores = 0.93;

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void Samples::add(double seconds, double cpu_seconds) {
  samples_.push_back({seconds, seconds > 0.0 ? cpu_seconds / seconds : 0.0});
}

std::vector<double> Samples::counting() const {
  // The second best, so that one lucky reading of the clock does not disqualify all others.
  std::vector<double> cores;
  cores.reserve(samples_.size());
  for (const Sample& sample : samples_) cores.push_back(sample.cores);
  std::sort(cores.rbegin(), cores.rend());
  const double best = cores.size() > 1 ? cores[1] : cores[0];
  std::vector<double> seconds;
  for (const Sample& sample : samples_) {
    if (sample.cores >= kShareOfCores * best) seconds.push_back(sample.seconds);
  }
  return seconds;
}

double Samples::median() const { return median_of(counting()); }

int Samples::discarded() const { return static_cast<int>(samples_.size() - counting().size()); }

void time_once(Samples& samples, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  const double cpu_before = process_cpu_seconds();
  const auto before = Clock::now();
  body();
  const std::chrono::duration<double> taken = Clock::now() - before;
  samples.add(taken.count(), process_cpu_seconds() - cpu_before);
}

}  // namespace laconic::bench
