#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace laconic::bench {

struct MethodBenchOptions {
  std::uint64_t n = 25'000'000;
  int workers = 2;
  int repeats = 11;            ///< each two steps a side, in the order A B B A; medians count
  std::string filter;          ///< only methods whose name contains it; several separated by commas
  bool show_progress = false;  ///< a line on stderr that is written over
};

/// One method's step against its kernels and exchange called directly on the same data, in turns. Ranks are threads of
/// this process with one kernel thread each. Seconds of wall time are those of the slowest rank, CPU seconds the sum
/// over ranks, which other programs on the machine disturb less.
struct MethodResult {
  std::string method;
  std::string bare;  ///< what the other side of the comparison calls
  int workers = 0;
  std::uint64_t n = 0;
  double step_seconds = 0.0;
  double bare_seconds = 0.0;
  double overhead = 0.0;  ///< median over the repeats of step/bare, less 1
  double step_cpu_seconds = 0.0;
  double bare_cpu_seconds = 0.0;
  double cpu_overhead = 0.0;
};

/// Runs each method, checks after every step that both sides have the same bits, and times. Calls `found`
/// after each. Error if results differ, InvalidConfig if the filter matches nothing.
std::vector<MethodResult> bench_methods(const MethodBenchOptions& options,
                                        const std::function<void(const MethodResult&)>& found);

}  // namespace laconic::bench
