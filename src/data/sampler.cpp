#include "data/sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/interval.h"
#include "base/philox.h"
#include "laconic/error.h"

namespace laconic {
namespace {

/// Fisher and Yates: every order equally likely.
void shuffle(const RandomStream& stream, std::vector<std::uint32_t>& values) {
  for (std::size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[draw_below(stream, left, left)]);
  }
}

}  // namespace

Sampler::Sampler(std::span<const int> labels, int workers, SamplerOptions options)
    : options_(options), samples_(static_cast<std::uint32_t>(labels.size())) {
  if (workers < 1) throw InvalidConfig("workers must be 1 or more, got " + std::to_string(workers));
  if (labels.size() < static_cast<std::size_t>(workers)) {
    throw InvalidConfig("there are " + std::to_string(labels.size()) + " training samples for " +
                        std::to_string(workers) + " workers: each needs one at least");
  }
  if (options.batch < 1) throw InvalidConfig("batch must be 1 or more, got " + std::to_string(options.batch));
  if (!(options.skew >= 0.0 && options.skew <= 1.0)) {
    throw InvalidConfig("skew must be in [0, 1], got " + text_of(options.skew) +
                        ": 0 makes shards alike, 1 sorts them by label");
  }
  shards_.resize(static_cast<std::size_t>(workers));
  orders_ = std::make_unique<Order[]>(shards_.size());
  make_shards(labels);
  const auto smallest = static_cast<std::uint32_t>(labels.size() / shards_.size());
  if (options.sampling == Sampling::epochs && static_cast<std::uint32_t>(options.batch) > smallest) {
    throw InvalidConfig("batch must be at most the " + std::to_string(smallest) + " samples of a shard, got " +
                        std::to_string(options.batch) +
                        ": take fewer workers, a smaller batch, or sample with replacement");
  }
  steps_per_epoch_ = std::max(1U, smallest / static_cast<std::uint32_t>(options.batch));
}

/// All samples in a random order; the head of it, a share `skew`, is sorted by label. Each worker gets its slice of the
/// head and its slice of the rest, so that shards have the right size whatever the share.
void Sampler::make_shards(std::span<const int> labels) {
  std::vector<std::uint32_t> all(labels.size());
  for (std::uint32_t i = 0; i < samples_; ++i) all[i] = i;
  shuffle({.seed = options_.seed, .purpose = Purpose::data_shards}, all);

  const std::uint64_t workers = shards_.size();
  std::vector<std::size_t> sizes(workers);
  std::vector<std::size_t> sorted(workers);
  std::size_t head = 0;
  for (std::uint64_t w = 0; w < workers; ++w) {
    sizes[w] = (w + 1) * all.size() / workers - w * all.size() / workers;
    sorted[w] = static_cast<std::size_t>(options_.skew * static_cast<double>(sizes[w]) + 0.5);
    head += sorted[w];
  }
  std::stable_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head),
                   [&](std::uint32_t a, std::uint32_t b) { return labels[a] < labels[b]; });

  auto next_sorted = all.cbegin();
  auto next_other = all.cbegin() + static_cast<std::ptrdiff_t>(head);
  const auto take = [](auto& from, std::size_t count, std::vector<std::uint32_t>& to) {
    to.insert(to.end(), from, from + static_cast<std::ptrdiff_t>(count));
    from += static_cast<std::ptrdiff_t>(count);
  };
  for (std::uint64_t w = 0; w < workers; ++w) {
    take(next_sorted, sorted[w], shards_[w]);
    take(next_other, sizes[w] - sorted[w], shards_[w]);
  }
}

void Sampler::require_worker(int worker) const {
  if (worker < 0 || worker >= workers()) {
    throw InvalidConfig("worker must be in [0, " + std::to_string(workers() - 1) + "], got " + std::to_string(worker));
  }
}

std::span<const std::uint32_t> Sampler::shard(int worker) const {
  require_worker(worker);
  return shards_[static_cast<std::size_t>(worker)];
}

void Sampler::shuffle_anew(int worker, std::uint32_t epoch, Order& order) const {
  order.samples = shards_[static_cast<std::size_t>(worker)];
  shuffle({.seed = options_.seed,
           .step = epoch,
           .rank = static_cast<std::uint32_t>(worker),
           .purpose = Purpose::data_order},
          order.samples);
  order.epoch = epoch;
  order.made = true;
}

void Sampler::batch(int worker, std::uint32_t step, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const {
  require_worker(worker);
  const auto count = static_cast<std::uint32_t>(options_.batch);
  samples.resize(count);
  epoch = step / steps_per_epoch_;
  if (options_.sampling == Sampling::replacement) {
    const std::vector<std::uint32_t>& shard = shards_[static_cast<std::size_t>(worker)];
    const RandomStream stream{.seed = options_.seed,
                        .step = step,
                        .rank = static_cast<std::uint32_t>(worker),
                        .purpose = Purpose::data_order};
    for (std::uint32_t i = 0; i < count; ++i) samples[i] = shard[draw_below(stream, i, shard.size())];
    return;
  }
  Order& order = orders_[static_cast<std::size_t>(worker)];
  const std::lock_guard<std::mutex> lock(order.mutex);
  if (!order.made || order.epoch != epoch) shuffle_anew(worker, epoch, order);
  const auto first = order.samples.cbegin() + std::ptrdiff_t{step % steps_per_epoch_} * count;
  std::copy(first, first + count, samples.begin());
}

void Sampler::shared_batch(std::uint32_t round, std::vector<std::uint32_t>& samples, std::uint32_t& epoch) const {
  samples.resize(static_cast<std::size_t>(options_.shared_batch > 0 ? options_.shared_batch : options_.batch));
  epoch = round;
  const RandomStream stream{.seed = options_.seed, .step = round, .purpose = Purpose::data_shared};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<std::uint32_t>(draw_below(stream, i, samples_));
  }
}

}  // namespace laconic
