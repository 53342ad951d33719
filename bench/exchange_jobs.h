#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "bench/supports.h"
#include "exchange/exchange.h"
#include "kernels/topk/topk.h"

namespace laconic::bench {

inline constexpr double kSparseKeep = 0.01;
inline constexpr double kBlockRatio = 64.0;
inline constexpr int kQuantizedBits = 8;

/// Normal(0, 1) values for every rank out of one buffer: rank r's begin r·16 entries further on.
class RankValues {
 public:
  RankValues(ThreadPool& pool, std::uint64_t n, int ranks);
  View<const float> of(int rank, std::uint64_t n) const {
    return values_.view().sub(static_cast<std::size_t>(rank) * kShift, n);
  }

 private:
  static constexpr std::size_t kShift = 16;
  Buffer<float> values_;
};

struct ExchangeSetting {
  std::uint64_t n;
  int workers;
  const RankValues& values;
  Supports supports;  ///< of sparse exchanges
};

/// One rank's part in one exchange.
class ExchangeJob {
 public:
  virtual ~ExchangeJob() = default;
  virtual void step(int step) = 0;
  virtual const Traffic& traffic() const = 0;
  virtual View<const float> result() const = 0;
  /// What is wrong with the result of the last step, or empty.
  virtual std::string wrong() const = 0;
};

struct ExchangeEntry {
  const char* name;
  bool sparse;
  int rounds;                                 ///< messages that follow one another
  double (*bytes_a_coordinate)(int workers);  ///< memory of one rank, about
  std::unique_ptr<ExchangeJob> (*make)(const ExchangeSetting&, Communicator&, Place&);
};

const std::vector<ExchangeEntry>& exchange_table();

}  // namespace laconic::bench
