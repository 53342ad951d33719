#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include "base/philox.h"
#include "bench/harness.h"
#include "bench/progress.h"
#include "bench/streams.h"
#include "bench/timing.h"
#include "laconic/error.h"

#if LACONIC_TORCH
#include "torch/train/baselines.h"
#endif

namespace laconic::bench {
namespace {

/// Larger than the caches of most machines: read before each timed run, so that all begin with the same cold caches.
constexpr std::size_t kFlushBytes = std::size_t{128} << 20;

/// A torch baseline that takes longer than this is run only a few times.
constexpr double kLongRun = 0.1;
constexpr int kFewRuns = 3;

/// The best level, and AVX2 beside it where it is not the best; or the one that LACONIC_SIMD names.
std::vector<SimdLevel> levels_to_measure() {
  std::vector<SimdLevel> levels{default_simd()};
  const char* forced = std::getenv("LACONIC_SIMD");
  const bool free_choice = forced == nullptr || *forced == '\0';
  if (free_choice && levels[0] != SimdLevel::avx2 && simd_available(SimdLevel::avx2)) {
    levels.push_back(SimdLevel::avx2);
  }
  return levels;
}

std::vector<const KernelEntry*> chosen_kernels(const std::string& filter) {
  std::vector<const KernelEntry*> chosen;
  std::string names;
  for (const KernelEntry& entry : kernel_table()) {
    if (matches(entry.name, filter)) chosen.push_back(&entry);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (chosen.empty()) throw InvalidConfig("no kernel's name contains " + filter + ": the kernels are " + names);
  return chosen;
}

/// Runs one kernel's case: proof, then timing.
class Bench {
 public:
  Bench(const KernelOptions& options, const KernelEntry& entry, const Inputs& inputs,
        const std::vector<std::unique_ptr<Place>>& places, View<const std::byte> flush)
      : options_(options), entry_(entry), case_(entry.make(inputs)), places_(places), flush_(flush) {}

  void verify(Place& reference) {
    case_.prepare();
    case_.run(reference);
    std::vector<std::vector<std::byte>> expected;
    for (const auto& result : case_.results) expected.emplace_back(result.begin(), result.end());
    for (const auto& place : places_) {
      case_.prepare();
      case_.run(*place);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& result = case_.results[i];
        if (std::equal(result.begin(), result.end(), expected[i].begin())) continue;
        throw Error(std::string(entry_.name) + " at level " + simd_name(place->simd()) +
                    " differs from the reference: nothing was timed; please report it");
      }
    }
  }

  std::vector<KernelResult> measure(const Progress& progress) {
    Samples stream;
    std::vector<Samples> runs(places_.size());
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      progress.say(std::string(entry_.name) + " " + std::to_string(repeat + 1) + "/" +
                   std::to_string(options_.repeats));
      time_cold(stream, places_[0]->pool(), [&] { case_.stream(places_[0]->pool()); });
      for (std::size_t i = 0; i < places_.size(); ++i)
        time_cold(runs[i], places_[i]->pool(), [&] { case_.run(*places_[i]); });
    }
    std::vector<KernelResult> results;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      KernelResult& result = results.emplace_back();
      result.kernel = entry_.name;
      result.implementation = simd_name(places_[i]->simd());
      result.n = options_.n;
      result.threads = places_[i]->threads();
      result.seconds = runs[i].median();
      result.stream_seconds = stream.median();
      result.ratio = result.seconds / result.stream_seconds;
      result.stream = entry_.stream;
      result.discarded = runs[i].discarded() + stream.discarded();
    }
    progress.say(std::string(entry_.name) + " in torch");
    add_torch(results);
    progress.clear();
    return results;
  }

 private:
  /// The flush is read by the pool that runs next, so that no run has to wake its threads.
  void time_cold(Samples& samples, ThreadPool& pool, const std::function<void()>& body) {
    case_.prepare();
    stream_read(pool, flush_);
    time_once(samples, body);
  }

  void add_torch(std::vector<KernelResult>& results) {
    if (!options_.compare_torch || !case_.torch) return;
    case_.prepare();
    case_.torch();
    if (const std::string wrong = case_.torch_wrong(); !wrong.empty()) {
      throw Error("torch's " + std::string(entry_.name) + " does another job than ours: " + wrong);
    }
    Samples samples;
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      time_cold(samples, places_[0]->pool(), case_.torch);
      if (repeat + 1 >= kFewRuns && samples.median() > kLongRun) break;
    }
    for (KernelResult& result : results) {
      result.torch_seconds = samples.median();
      result.torch_ratio = *result.torch_seconds / result.seconds;
    }
  }

  const KernelOptions& options_;
  const KernelEntry& entry_;
  Case case_;
  const std::vector<std::unique_ptr<Place>>& places_;
  View<const std::byte> flush_;
};

}  // namespace

void fill_normal(ThreadPool& pool, std::uint64_t seed, View<float> values) {
  const RandomStream stream{.seed = seed, .purpose = Purpose::test};
  parallel_ranges(pool, values.size(), 4, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; i += 4) {
      const PhiloxBlock bits = stream.block(i / 4);
      // Box and Muller: two pairs of uniform numbers are two pairs of normal ones.
      for (std::size_t pair = 0; pair < 2; ++pair) {
        const float radius = std::sqrt(-2.0F * std::log((static_cast<float>(bits[2 * pair] >> 8) + 1.0F) * 0x1p-24F));
        const float angle = 2.0F * std::numbers::pi_v<float> * static_cast<float>(bits[2 * pair + 1] >> 8) * 0x1p-24F;
        if (i + 2 * pair < range.end) values[i + 2 * pair] = radius * std::cos(angle);
        if (i + 2 * pair + 1 < range.end) values[i + 2 * pair + 1] = radius * std::sin(angle);
      }
    }
  });
}

Inputs::Inputs(const KernelOptions& options, Place& place)
    : place_(place), gradient_(options.n), last_gradient_(options.n), residual_(options.n) {
  fill_normal(place.pool(), 1, gradient_.view());
  fill_normal(place.pool(), 2, last_gradient_.view());
  fill_normal(place.pool(), 3, residual_.view());
}

std::vector<KernelResult> bench_kernels(const KernelOptions& options,
                                        const std::function<void(const KernelResult&)>& found) {
  const auto chosen = chosen_kernels(options.filter);
  std::vector<std::unique_ptr<Place>> places;
  for (const SimdLevel level : levels_to_measure()) {
    places.push_back(std::make_unique<Place>(CpuOptions{options.threads, level}));
  }
  Place reference({options.threads, SimdLevel::reference});
#if LACONIC_TORCH
  torch_baselines::set_threads(places[0]->threads());
#endif

  const Progress progress(options.show_progress);
  progress.say("making " + std::to_string(options.n) + " values");
  const Inputs inputs(options, *places[0]);
  // Four times the inputs are enough for small runs.
  const Buffer<std::byte> flush(std::min<std::size_t>(kFlushBytes, options.n * sizeof(float) * 4));
  std::memset(flush.view().data(), 1, flush.capacity());

  std::vector<KernelResult> results;
  for (const KernelEntry* entry : chosen) {
    progress.say(std::string(entry->name) + ": checking the result");
    Bench bench(options, *entry, inputs, places, flush.view());
    bench.verify(reference);
    for (KernelResult& result : bench.measure(progress)) {
      found(result);
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace laconic::bench
