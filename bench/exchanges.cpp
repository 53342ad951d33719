#include "bench/exchanges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "base/buffer.h"
#include "base/keep.h"
#include "base/thread_pool.h"
#include "bench/exchange_jobs.h"
#include "bench/progress.h"
#include "laconic/error.h"
#include "laconic/threads.h"

namespace laconic::bench {
namespace {

/// Room that all ranks together may take; beyond it n is halved.
constexpr double kMostBytes = 12e9;

constexpr int kSteps = 2;

std::uint64_t fitting_n(std::uint64_t n, const ExchangeEntry& entry, int workers) {
  while (n > 1 && entry.bytes_a_coordinate(workers) * workers * static_cast<double>(n) > kMostBytes) n /= 2;
  return n;
}

/// What one rank brings back from a run.
struct RankOutcome {
  Traffic traffic;
  double seconds = 0.0;
  std::uint64_t fingerprint = 0;
  std::string wrong;
};

/// A fingerprint of all bits: FNV-1a over words, enough to tell ranks apart.
std::uint64_t fingerprint(View<const float> values) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211ULL;
  return hash;
}

std::vector<RankOutcome> run_job(const ExchangeEntry& entry, const ExchangeSetting& setting) {
  std::vector<RankOutcome> outcomes(static_cast<std::size_t>(setting.workers));
  run_ranks(setting.workers, [&](Communicator& communicator) {
    // A big step of many ranks on few cores may take long.
    communicator.set_timeout(Milliseconds(600'000));
    Place place({.threads = 1});
    RankOutcome& outcome = outcomes[static_cast<std::size_t>(communicator.rank())];
    const auto job = entry.make(setting, communicator, place);
    for (int step = 0; step < kSteps; ++step) {
      communicator.barrier().wait();
      const double before = seconds_now();
      job->step(step);
      outcome.seconds = seconds_now() - before;
    }
    outcome.traffic = job->traffic();
    outcome.fingerprint = fingerprint(job->result());
    // All ranks have the same bits if their fingerprints agree, so one rank's proof is enough.
    if (communicator.rank() == 0) outcome.wrong = job->wrong();
  });
  return outcomes;
}

ExchangeResult measure(const ExchangeEntry& entry, const ExchangeSetting& setting) {
  const auto outcomes = run_job(entry, setting);
  const std::string name = entry.name + std::string(" of ") + std::to_string(setting.workers) + " workers";
  if (!outcomes[0].wrong.empty()) throw Error(name + ": " + outcomes[0].wrong + "; please report it");
  ExchangeResult result;
  result.exchange = entry.name;
  result.workers = setting.workers;
  result.n = setting.n;
  result.rounds = entry.rounds;
  for (const RankOutcome& outcome : outcomes) {
    if (outcome.fingerprint != outcomes[0].fingerprint) throw Error(name + ": ranks differ; please report it");
    result.payload_bytes = std::max(result.payload_bytes, outcome.traffic.payload_bytes);
    result.sent_bytes_per_rank = std::max(result.sent_bytes_per_rank, outcome.traffic.sent_bytes);
    result.seconds = std::max(result.seconds, outcome.seconds);
  }
  result.bits_per_coordinate = 8.0 * static_cast<double>(result.sent_bytes_per_rank) / static_cast<double>(setting.n);
  return result;
}

void require_sensible(const ExchangeOptions& options) {
  if (options.n < 1 || options.n > kMostSparseEntries) {
    throw InvalidConfig("n must be in 1..4294967295, got " + std::to_string(options.n));
  }
  for (const int workers : options.workers) {
    if (workers < 1 || workers > kMostRanks) {
      throw InvalidConfig("workers must be in 1.." + std::to_string(kMostRanks) + ", got " + std::to_string(workers));
    }
  }
}

std::vector<const ExchangeEntry*> chosen_exchanges(const std::string& filter) {
  std::vector<const ExchangeEntry*> chosen;
  std::string names;
  for (const ExchangeEntry& entry : exchange_table()) {
    if (matches(entry.name, filter)) chosen.push_back(&entry);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (chosen.empty()) throw InvalidConfig("no exchange's name contains " + filter + ": the exchanges are " + names);
  return chosen;
}

}  // namespace

std::vector<ExchangeResult> bench_exchanges(const ExchangeOptions& options,
                                            const std::function<void(const ExchangeResult&)>& found) {
  require_sensible(options);
  const auto chosen = chosen_exchanges(options.filter);
  const Progress progress(options.show_progress);
  ThreadPool pool(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const RankValues values(pool, options.n, *std::max_element(options.workers.begin(), options.workers.end()));

  std::vector<ExchangeResult> results;
  const auto keep_result = [&](ExchangeResult result) {
    progress.clear();
    found(result);
    results.push_back(std::move(result));
  };
  for (const ExchangeEntry* entry : chosen) {
    for (const double overlap : entry->sparse ? std::vector<double>{1.0, 0.5, 0.0} : std::vector<double>{1.0}) {
      for (const int workers : options.workers) {
        progress.say(std::string(entry->name) + ", " + std::to_string(workers) + " workers");
        ExchangeSetting setting{fitting_n(options.n, *entry, workers), workers, values, {}};
        if (!entry->sparse) {
          keep_result(measure(*entry, setting));
          continue;
        }
        const std::uint64_t count = fitting_count(setting.n, keep_count(kSparseKeep, setting.n), overlap, workers);
        setting.supports = draw_supports(setting.n, count, overlap, workers);
        ExchangeResult result = measure(*entry, setting);
        result.overlap = overlap;
        result.keep = static_cast<double>(count) / static_cast<double>(setting.n);
        keep_result(std::move(result));
      }
    }
  }
  return results;
}

}  // namespace laconic::bench
