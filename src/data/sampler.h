#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace laconic {

enum class Sampling : std::uint8_t {
  epochs,       ///< every epoch a fresh order of the worker's shard, each sample at most once
  replacement,  ///< every sample of every batch drawn from the whole shard
};

struct SamplerOptions {
  std::uint64_t seed = 1;
  int batch = 16;  ///< samples of a worker's step
  Sampling sampling = Sampling::epochs;
  double skew = 0.0;     ///< 0: shards alike; 1: sorted by label; between: so large a share of each shard is sorted
  int shared_batch = 0;  ///< samples of a batch that all workers share; 0: as many as a worker's
};

/// Which samples a worker takes at a step: a pure function of (options, labels, workers, worker, step), so that a
/// resumed run needs no state. Every sample is in exactly one shard; shards are equal within one. Workers that are
/// threads share one sampler.
class Sampler {
 public:
  /// InvalidConfig unless there is a sample for each worker, a batch is 1 or more and, by epochs, fits into a shard.
  Sampler(std::span<const int> labels, int workers, SamplerOptions options);

  const SamplerOptions& options() const { return options_; }
  int workers() const { return static_cast<int>(shards_.size()); }
  std::span<const std::uint32_t> shard(int worker) const;

  /// Steps of one epoch, the same for all workers: what a whole number of batches leaves over of a shard is not seen in
  /// that epoch. At least 1.
  std::uint32_t steps_per_epoch() const { return steps_per_epoch_; }

  /// The samples of the worker's step and the epoch that this step belongs to. Shuffles the shard at the first step
  /// of an epoch, else copies; no allocation once `samples` has the size of a batch.
  void batch(int worker, std::uint32_t step, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const;

  /// A batch from the whole training set, the same for all workers, drawn with replacement; epoch is the round.
  void shared_batch(std::uint32_t round, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const;

 private:
  /// The order of a worker's shard in the epoch that was asked for last.
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
