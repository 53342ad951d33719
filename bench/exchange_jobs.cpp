#include "bench/exchange_jobs.h"

#include <cmath>
#include <cstring>

#include "base/keep.h"
#include "base/layout.h"
#include "bench/harness.h"
#include "exchange/dense_sum.h"
#include "exchange/packed_vote.h"
#include "exchange/quantized_sum.h"
#include "exchange/sparse_sum.h"
#include "kernels/coded/coded.h"

namespace laconic::bench {
namespace {

/// The mean that rank order gives, for one coordinate.
template <class ValueOf>
float mean_of(int workers, const ValueOf& value_of) {
  float sum = value_of(0);
  for (int rank = 1; rank < workers; ++rank) sum += value_of(rank);
  return sum / static_cast<float>(workers);
}

class DenseJob : public ExchangeJob {
 public:
  DenseJob(const ExchangeSetting& setting, Communicator& communicator, Place& place)
      : setting_(setting),
        mine_(setting.values.of(communicator.rank(), setting.n)),
        values_(setting.n),
        sum_(communicator, place, setting.n) {}

  void step(int) override {
    std::memcpy(values_.view().data(), mine_.data(), mine_.size_bytes());
    Status status;
    sum_.start(values_.view(), view_of(status));
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return values_.view(); }
  std::string wrong() const override {
    for (std::size_t i = 0; i < setting_.n; ++i) {
      const float expected =
          mean_of(setting_.workers, [&](int rank) { return setting_.values.of(rank, setting_.n)[i]; });
      if (values_.view()[i] != expected) return "entry " + std::to_string(i) + " is not the mean in rank order";
    }
    return "";
  }

 private:
  const ExchangeSetting& setting_;
  View<const float> mine_;
  Buffer<float> values_;
  DenseSum sum_;
};

class BlockJob : public ExchangeJob {
 public:
  BlockJob(const ExchangeSetting& setting, Communicator& communicator, Place& place)
      : setting_(setting),
        mine_(setting.values.of(communicator.rank(), setting.n)),
        block_{0, setting.n, setting.n - 1, block_count(kBlockRatio, setting.n)},
        mean_(block_.count),
        sum_(communicator, place, block_.count) {}

  void step(int) override {
    Status status;
    sum_.start(mine_, {&block_, 1}, mean_.view(), view_of(status));
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return mean_.view(); }
  std::string wrong() const override {
    for (std::size_t i = 0; i < block_.count; ++i) {
      const std::size_t at = (block_.start + i) % block_.size;
      const float expected =
          mean_of(setting_.workers, [&](int rank) { return setting_.values.of(rank, setting_.n)[at]; });
      if (mean_.view()[i] != expected) return "entry " + std::to_string(i) + " is not the mean in rank order";
    }
    return "";
  }

 private:
  const ExchangeSetting& setting_;
  View<const float> mine_;
  Block block_;  ///< wraps round the end at once
  Buffer<float> mean_;
  BlockSum sum_;
};

class SparseJob : public ExchangeJob {
 public:
  SparseJob(const ExchangeSetting& setting, Communicator& communicator, Place& place, SparseSumOptions options)
      : setting_(setting),
        keeps_(options.coded_return),
        indices_(setting.supports.of_rank[static_cast<std::size_t>(communicator.rank())]),
        format_(options.format),
        values_(sent_values(communicator.rank())),
        mean_(setting.n),
        sum_(communicator, place, setting.n, indices_.size(), options) {}

  void step(int) override {
    Status status;
    sum_.start({View<const std::uint32_t>(indices_), View<const float>(values_)}, mean_.view(), view_of(status));
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return mean_.view(); }

  /// The mean of all supports, dense; with coded_return each entry that came back, or if it was coded again its sign.
  std::string wrong() const override {
    std::vector<float> expected(setting_.n);
    for (int rank = 0; rank < setting_.workers; ++rank) {
      const auto& support = setting_.supports.of_rank[static_cast<std::size_t>(rank)];
      const std::vector<float> values = sent_values(rank);
      for (std::size_t i = 0; i < support.size(); ++i) expected[support[i]] += values[i];
    }
    std::uint64_t present = 0;
    for (std::size_t i = 0; i < setting_.n; ++i) {
      const float mean = mean_.view()[i];
      present += mean != 0.0F ? 1 : 0;
      if (keeps_ && mean == 0.0F) continue;
      if (keeps_ && is_coded(format_) && (mean < 0.0F) == (expected[i] < 0.0F)) continue;
      if (mean != expected[i] / static_cast<float>(setting_.workers)) {
        return "entry " + std::to_string(i) + " is not the mean in rank order";
      }
    }
    return keeps_ && present > indices_.size() + static_cast<std::size_t>(setting_.workers)
               ? "more entries came back than one rank sends"
               : "";
  }

 private:
  /// A rank's values, as a method makes them before it sends.
  std::vector<float> sent_values(int rank) const {
    auto indices = setting_.supports.of_rank[static_cast<std::size_t>(rank)];
    const View<const float> given = setting_.values.of(rank, indices.size());
    std::vector<float> values(given.begin(), given.end());
    if (!is_coded(format_)) return values;
    Place place({.threads = 1});
    std::vector<float> errors(values.size());
    Status status;
    code_values(place, format_, {}, {0, 1}, {indices, values}, errors, view_of(status));
    return values;
  }

  const ExchangeSetting& setting_;
  bool keeps_;
  const std::vector<std::uint32_t>& indices_;
  ValueFormat format_;
  std::vector<float> values_;
  Buffer<float> mean_;
  SparseSum sum_;
};

/// Rank 0's list to all.
class LeaderJob : public ExchangeJob {
 public:
  LeaderJob(const ExchangeSetting& setting, Communicator& communicator, Place& place)
      : indices_(setting.supports.of_rank[static_cast<std::size_t>(communicator.rank())]),
        led_indices_(setting.supports.of_rank.front()),
        values_(setting.values.of(communicator.rank(), indices_.size())),
        led_values_(setting.values.of(0, led_indices_.size())),
        sent_(setting.n),
        sum_(communicator, place, setting.n, indices_.size()) {}

  void step(int) override {
    Status status;
    sum_.start_from(0, {View<const std::uint32_t>(indices_), values_}, sent_.view(), view_of(status));
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return sent_.view(); }

  std::string wrong() const override {
    std::vector<float> expected(sent_.view().size());
    for (std::size_t i = 0; i < led_indices_.size(); ++i) expected[led_indices_[i]] = led_values_[i];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (sent_.view()[i] != expected[i]) return "entry " + std::to_string(i) + " is not the leader's";
    }
    return "";
  }

 private:
  const std::vector<std::uint32_t>& indices_;
  const std::vector<std::uint32_t>& led_indices_;
  View<const float> values_;
  View<const float> led_values_;
  Buffer<float> sent_;
  SparseSum sum_;
};

class VoteJob : public ExchangeJob {
 public:
  VoteJob(const ExchangeSetting& setting, Communicator& communicator, Place& place)
      : setting_(setting),
        mine_(setting.values.of(communicator.rank(), setting.n)),
        vote_(setting.n),
        exchange_(communicator, place, Layout(setting.n)) {}

  void step(int step) override {
    Status status;
    exchange_.start(mine_, {.seed = 1, .step = static_cast<std::uint32_t>(step)}, vote_.view(), view_of(status));
    exchange_.finish();
  }
  const Traffic& traffic() const override { return exchange_.traffic(); }
  View<const float> result() const override { return vote_.view(); }
  std::string wrong() const override {
    for (std::size_t i = 0; i < setting_.n; ++i) {
      int sum = 0;
      for (int rank = 0; rank < setting_.workers; ++rank)
        sum += setting_.values.of(rank, setting_.n)[i] < 0.0F ? -1 : 1;
      const float vote = vote_.view()[i];
      if (std::abs(vote) != 1.0F || vote * static_cast<float>(sum) < 0.0F) {
        return "entry " + std::to_string(i) + " is not the majority";
      }
    }
    return "";
  }

 private:
  const ExchangeSetting& setting_;
  View<const float> mine_;
  Buffer<float> vote_;
  PackedVote exchange_;
};

class QuantizedJob : public ExchangeJob {
 public:
  QuantizedJob(const ExchangeSetting& setting, Communicator& communicator, Place& place, QuantizedRoute route)
      : setting_(setting),
        rank_(static_cast<std::uint32_t>(communicator.rank())),
        mine_(setting.values.of(communicator.rank(), setting.n)),
        mean_(setting.n),
        sum_(communicator, place, Layout(setting.n), {.route = route}) {}

  void step(int step) override {
    Status status;
    sum_.start(mine_, kQuantizedBits, {.seed = 1, .step = static_cast<std::uint32_t>(step), .rank = rank_},
               mean_.view(), view_of(status));
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return mean_.view(); }

  /// Every worker is off by less than one level, and so is the mean.
  std::string wrong() const override {
    double squares = 0.0;
    for (const float value : mine_) squares += static_cast<double>(value) * static_cast<double>(value);
    // The ranks' norms differ a little; their values are the same but for the ends.
    const double level = 1.1 * std::sqrt(squares) / levels_of(kQuantizedBits);
    for (std::size_t i = 0; i < setting_.n; ++i) {
      const float exact = mean_of(setting_.workers, [&](int rank) { return setting_.values.of(rank, setting_.n)[i]; });
      if (std::abs(static_cast<double>(mean_.view()[i]) - static_cast<double>(exact)) > level + 1e-3) {
        return "entry " + std::to_string(i) + " is off by more than a level";
      }
    }
    return "";
  }

 private:
  const ExchangeSetting& setting_;
  std::uint32_t rank_;
  View<const float> mine_;
  Buffer<float> mean_;
  QuantizedSum sum_;
};

/// block-quant's: four bits to the nearest level, a norm for each 256 entries, the sums requantized, and the rest kept.
class ChunkQuantizedJob : public ExchangeJob {
 public:
  ChunkQuantizedJob(const ExchangeSetting& setting, Communicator& communicator, Place& place)
      : setting_(setting),
        mine_(setting.values.of(communicator.rank(), setting.n)),
        mean_(setting.n),
        rest_(setting.n),
        sum_(communicator, place, Layout::in_scopes(setting.n, 256),
             {.route = QuantizedRoute::scatter,
              .return_path = QuantizedReturn::requantized,
              .norm = Norm::max,
              .rounding = Rounding::nearest,
              .most_bits = kChunkBits}) {}

  void step(int) override {
    Status status;
    sum_.start(mine_, kChunkBits, {}, mean_.view(), view_of(status), 0.0F, rest_.view());
    sum_.finish();
  }
  const Traffic& traffic() const override { return sum_.traffic(); }
  View<const float> result() const override { return mean_.view(); }

  /// Every worker is off by at most half a level, and the sum by half a level of its own.
  std::string wrong() const override {
    float largest = 0.0F;
    for (const float value : mine_) largest = std::max(largest, std::abs(value));
    const double level = 1.1 * static_cast<double>(largest) / levels_of(kChunkBits);
    for (std::size_t i = 0; i < setting_.n; ++i) {
      const float exact = mean_of(setting_.workers, [&](int rank) { return setting_.values.of(rank, setting_.n)[i]; });
      if (std::abs(static_cast<double>(mean_.view()[i]) - static_cast<double>(exact)) > level + 1e-3) {
        return "entry " + std::to_string(i) + " is off by more than a level";
      }
    }
    return "";
  }

 private:
  static constexpr int kChunkBits = 4;

  const ExchangeSetting& setting_;
  View<const float> mine_;
  Buffer<float> mean_;
  Buffer<float> rest_;
  QuantizedSum sum_;
};

using JobPointer = std::unique_ptr<ExchangeJob>;

template <class Job, auto... kArguments>
JobPointer make(const ExchangeSetting& setting, Communicator& communicator, Place& place) {
  return std::make_unique<Job>(setting, communicator, place, kArguments...);
}

template <SparseRoute kRoute, bool kCodedReturn, ValueFormat kFormat = ValueFormat::f32>
JobPointer make_sparse(const ExchangeSetting& setting, Communicator& communicator, Place& place) {
  return std::make_unique<SparseJob>(
      setting, communicator, place,
      SparseSumOptions{.route = kRoute, .format = kFormat, .cuts = {}, .coded_return = kCodedReturn});
}

/// A dense mean, and what arrives from all ranks several times over: as payload, decoded, summed, and as the union.
double sparse_memory(int workers) { return 4.0 + kSparseKeep * 8.0 * 3.0 * workers; }

}  // namespace

RankValues::RankValues(ThreadPool& pool, std::uint64_t n, int ranks)
    : values_(n + static_cast<std::size_t>(ranks) * kShift) {
  fill_normal(pool, 21, values_.view());
}

const std::vector<ExchangeEntry>& exchange_table() {
  static const std::vector<ExchangeEntry> table{
      {"dense", false, 2, [](int) { return 16.0; }, make<DenseJob>},
      {"block", false, 2, [](int) { return 16.0 / kBlockRatio; }, make<BlockJob>},
      {"sparse_gather", true, 2, sparse_memory, make_sparse<SparseRoute::gather, false>},
      {"sparse_range", true, 4, sparse_memory, make_sparse<SparseRoute::range, false>},
      {"sparse_range_keep", true, 4, sparse_memory, make_sparse<SparseRoute::range, true>},
      {"sparse_sign", true, 2, sparse_memory, make_sparse<SparseRoute::gather, false, ValueFormat::sign>},
      {"sparse_sign_coded", true, 4, sparse_memory, make_sparse<SparseRoute::range, true, ValueFormat::sign>},
      {"sparse_two_coded", true, 4, sparse_memory, make_sparse<SparseRoute::range, true, ValueFormat::two>},
      {"sparse_leader", true, 2, sparse_memory, make<LeaderJob>},
      {"vote", false, 2, [](int) { return 4.5; }, make<VoteJob>},
      {"quantized_gather", false, 1, [](int workers) { return 5.0 + workers; },
       make<QuantizedJob, QuantizedRoute::gather>},
      {"quantized_scatter", false, 2, [](int) { return 11.0; }, make<QuantizedJob, QuantizedRoute::scatter>},
      {"quantized_by_chunk", false, 2, [](int) { return 11.0; }, make<ChunkQuantizedJob>},
  };
  return table;
}

}  // namespace laconic::bench
