#include "bench/methods.h"
#include "bench/timing.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "bench/exchange_jobs.h"
#include "bench/method_jobs.h"
#include "bench/progress.h"
#include "laconic/error.h"
#include "laconic/threads.h"

namespace laconic::bench {
namespace {

/// Gradients that a run goes through in turns, so that no step sees the one before.
constexpr std::uint32_t kGradients = 4;
/// Repeats before the first that counts: memory is touched, thresholds are warm.
constexpr int kWarmUp = 1;
/// Steps of each side in a repeat.
constexpr double kStepsOfRepeat = 2.0;

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Seconds {
  double wall = 0.0;
  double cpu = 0.0;
  Seconds& operator+=(const Seconds& other) {
    wall += other.wall;
    cpu += other.cpu;
    return *this;
  }
};

bool same_bits(View<const float> left, View<const float> right) {
  return std::memcmp(left.data(), right.data(), left.size_bytes()) == 0;
}

/// What one rank measured: in a repeat two steps of each side, together.
struct RankTimes {
  std::vector<Seconds> whole;
  std::vector<Seconds> bare;
  bool equal = true;
};

/// A method, or its parts, with the memory that it works on.
struct Side {
  explicit Side(std::uint64_t n) : model(n), gradient(n) { std::fill_n(model.view().data(), n, 0.5F); }

  Seconds step(StepKey key, View<const float> fresh, Communicator& communicator) {
    std::memcpy(gradient.view().data(), fresh.data(), fresh.size_bytes());
    communicator.barrier().wait();
    const double wall = seconds_now();
    const double cpu = thread_cpu_seconds();
    job->step(key, model.view(), gradient.view());
    return {seconds_now() - wall, thread_cpu_seconds() - cpu};
  }

  View<const float> result(const MethodEntry& entry) const {
    return entry.changes_model ? model.view() : gradient.view();
  }

  Buffer<float> model;
  Buffer<float> gradient;
  std::unique_ptr<StepJob> job;
};

RankTimes run_rank(const MethodEntry& entry, const MethodBenchOptions& options, const RankValues& values,
                   Communicator& communicator) {
  communicator.set_timeout(Milliseconds(600'000));
  Place place({.threads = 1});
  const auto tensors = bench_tensors(options.n);
  Side whole(options.n);
  Side bare(options.n);
  whole.job = make_whole({tensors, options.n, whole.model.view()}, entry, communicator, place);
  bare.job = entry.make_bare({tensors, options.n, bare.model.view()}, entry, communicator, place);
  RankTimes times;
  std::uint32_t step = 0;
  // One step on each side, whole first or bare first: the second finds the first one's traces in the caches.
  const auto pair = [&](bool whole_first, Seconds& of_whole, Seconds& of_bare) {
    const StepKey key{7, step, static_cast<std::uint32_t>(communicator.rank())};
    const auto fresh =
        values.of(static_cast<int>(step % kGradients) * communicator.size() + communicator.rank(), options.n);
    if (whole_first) of_whole += whole.step(key, fresh, communicator);
    of_bare += bare.step(key, fresh, communicator);
    if (!whole_first) of_whole += whole.step(key, fresh, communicator);
    times.equal = times.equal && same_bits(whole.result(entry), bare.result(entry));
    ++step;
  };
  for (int repeat = 0; repeat < kWarmUp + options.repeats; ++repeat) {
    Seconds of_whole;
    Seconds of_bare;
    pair(true, of_whole, of_bare);
    pair(false, of_whole, of_bare);
    if (repeat < kWarmUp) continue;
    times.whole.push_back(of_whole);
    times.bare.push_back(of_bare);
  }
  return times;
}

MethodResult measure(const MethodEntry& entry, const MethodBenchOptions& options, const RankValues& values) {
  std::vector<RankTimes> ranks(static_cast<std::size_t>(options.workers));
  run_ranks(options.workers, [&](Communicator& communicator) {
    ranks[static_cast<std::size_t>(communicator.rank())] = run_rank(entry, options, values, communicator);
  });
  // The slowest rank's wall time and all ranks' CPU time, repeat by repeat.
  const auto together = [&](std::vector<Seconds> RankTimes::*side, std::size_t repeat) {
    Seconds sum;
    for (const RankTimes& rank : ranks) {
      sum.wall = std::max(sum.wall, (rank.*side)[repeat].wall);
      sum.cpu += (rank.*side)[repeat].cpu;
    }
    return Seconds{sum.wall / kStepsOfRepeat, sum.cpu / kStepsOfRepeat};
  };
  std::vector<double> whole_wall, bare_wall, wall_ratio, whole_cpu, bare_cpu, cpu_ratio;
  for (std::size_t repeat = 0; repeat < static_cast<std::size_t>(options.repeats); ++repeat) {
    const Seconds whole = together(&RankTimes::whole, repeat);
    const Seconds bare = together(&RankTimes::bare, repeat);
    whole_wall.push_back(whole.wall);
    bare_wall.push_back(bare.wall);
    wall_ratio.push_back(whole.wall / bare.wall);
    whole_cpu.push_back(whole.cpu);
    bare_cpu.push_back(bare.cpu);
    cpu_ratio.push_back(whole.cpu / bare.cpu);
  }
  for (const RankTimes& rank : ranks) {
    if (!rank.equal) {
      throw Error(std::string(entry.name) + ": the step and its parts gave different bits; please report it");
    }
  }
  return {entry.name,
          entry.bare,
          options.workers,
          options.n,
          median_of(whole_wall),
          median_of(bare_wall),
          median_of(wall_ratio) - 1.0,
          median_of(whole_cpu),
          median_of(bare_cpu),
          median_of(cpu_ratio) - 1.0};
}

std::vector<const MethodEntry*> chosen_methods(const std::string& filter) {
  std::vector<const MethodEntry*> chosen;
  std::string names;
  for (const MethodEntry& entry : method_entries()) {
    if (matches(entry.name, filter)) chosen.push_back(&entry);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (chosen.empty()) throw InvalidConfig("no method's name contains " + filter + ": those measured are " + names);
  return chosen;
}

}  // namespace

std::vector<MethodResult> bench_methods(const MethodBenchOptions& options,
                                        const std::function<void(const MethodResult&)>& found) {
  if (options.n < 1 || options.n > kMostSparseEntries) {
    throw InvalidConfig("n must be in 1..4294967295, got " + std::to_string(options.n));
  }
  const auto chosen = chosen_methods(options.filter);
  const Progress progress(options.show_progress);
  ThreadPool pool(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const RankValues values(pool, options.n, options.workers * static_cast<int>(kGradients));
  std::vector<MethodResult> results;
  for (const MethodEntry* entry : chosen) {
    progress.say(entry->name);
    results.push_back(measure(*entry, options, values));
    progress.clear();
    found(results.back());
  }
  return results;
}

}  // namespace laconic::bench
