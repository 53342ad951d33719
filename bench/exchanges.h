#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace laconic::bench {

struct ExchangeOptions {
  std::uint64_t n = 25'600'000;
  std::vector<int> workers = {2, 4, 8, 16, 32};
  std::string filter;          ///< only exchanges whose name contains it; several separated by commas
  bool show_progress = false;  ///< a line on stderr that is written over
};

/// What one exchange sends, in its second step on the same supports, between ranks that are threads of this process.
struct ExchangeResult {
  std::string exchange;
  int workers = 0;
  std::uint64_t n = 0;                    ///< less than asked for where all ranks together would not fit into memory
  std::optional<double> overlap;          ///< sparse ones: the part of the supports that all ranks share
  std::optional<double> keep;             ///< sparse ones: part of the coordinates that a rank sends
  std::uint64_t payload_bytes = 0;        ///< one rank's encoded message, the largest over ranks
  std::uint64_t sent_bytes_per_rank = 0;  ///< what a rank sends, the largest over ranks
  double bits_per_coordinate = 0.0;       ///< 8·sent/n
  int rounds = 0;                         ///< messages that follow one another
  double seconds = 0.0;                   ///< of the second step, all ranks on this machine's cores
};

/// Runs each exchange over each number of workers, checks that all ranks end with the same and the right bits, and
/// counts. Calls `found` after each. Error if a result is wrong, or if the filter matches nothing.
std::vector<ExchangeResult> bench_exchanges(const ExchangeOptions& options,
                                            const std::function<void(const ExchangeResult&)>& found);

}  // namespace laconic::bench
