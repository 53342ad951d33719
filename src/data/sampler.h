#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace laconic {

enum class Sampling : std::uint8_t {
  epochs,       ///< each epoch goes through the worker's shard in a new order, each sample at most once
  replacement,  ///< every sample of every batch is drawn from the whole shard
};

struct SamplerOptions {
  std::uint64_t seed = 1;
  int batch = 16;  ///< samples per step and worker
  Sampling sampling = Sampling::epochs;
  double skew = 0.0;     ///< share of each shard that is sorted by label; 0: shards are alike; 1: sorted by label
  int shared_batch = 0;  ///< samples of a batch that all workers share; 0: same as `batch`
};

/// Chooses the samples of a worker's step, as a pure function of (options, labels, workers, worker, step), so that a
/// resumed run needs no state. Every sample is in exactly one shard; the sizes of shards differ by at most one. Workers
/// that are threads share one sampler.
class Sampler {
 public:
  /// Throws InvalidConfig if there are fewer samples than workers, if a batch is smaller than 1, or if, with epochs, it
  /// is larger than a shard.
  Sampler(std::span<const int> labels, int workers, SamplerOptions options);

  const SamplerOptions& options() const { return options_; }
  int workers() const { return static_cast<int>(shards_.size()); }
  std::span<const std::uint32_t> shard(int worker) const;

  /// Steps per epoch, the same for all workers. Samples that do not fill a whole batch are left out of that epoch. At
  /// least 1.
  std::uint32_t steps_per_epoch() const { return steps_per_epoch_; }

  /// The samples of the worker's step and the epoch of that step. It shuffles the shard in the first step of an epoch
  /// and only copies in the others. No allocation once `samples` has the size of a batch.
  void batch(int worker, std::uint32_t step, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const;

  /// A batch from the whole training set, drawn with replacement, the same for all workers. `epoch` is set to the
  /// round.
  void shared_batch(std::uint32_t round, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const;

 private:
  /// The order of a worker's shard in the epoch that was requested last.
  struct Order {
    std::mutex mutex;
    bool made = false;
    std::uint32_t epoch = 0;
    std::vector<std::uint32_t> samples;
  };

  void make_shards(std::span<const int> labels);
  void shuffle_anew(int worker, std::uint32_t epoch, Order& order) const;
  void require_worker(int worker) const;

  SamplerOptions options_;
  std::uint32_t samples_;
  std::uint32_t steps_per_epoch_ = 1;
  std::vector<std::vector<std::uint32_t>> shards_;
  std::unique_ptr<Order[]> orders_;
};

}  // namespace laconic
