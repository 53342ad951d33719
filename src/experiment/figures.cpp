#include "experiment/figures.h"

#include <algorithm>

namespace laconic {
namespace {

double at_least_one(std::uint32_t steps) { return std::max(1.0, static_cast<double>(steps)); }

/// The largest over ranks of what a rank has in a mean step of its own.
double largest_per_step(const std::vector<std::uint64_t>& by_rank, const std::vector<std::uint32_t>& steps) {
  double largest = 0.0;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    largest = std::max(largest, static_cast<double>(by_rank[i]) / at_least_one(steps[i]));
  }
  return largest;
}

}  // namespace

RankFigures rank_figures(const RunResult& result) {
  RankFigures figures;
  const auto& sent = result.sent_by_rank;
  if (!sent.empty()) {
    const auto most = static_cast<std::size_t>(std::max_element(sent.begin(), sent.end()) - sent.begin());
    const double steps = at_least_one(result.steps_by_rank[most]);
    figures.total_sent_bytes = sent[most];
    figures.sent_bytes_per_step = static_cast<double>(sent[most]) / steps;
    figures.sent_messages_per_step = static_cast<double>(result.messages_by_rank[most]) / steps;
  }
  figures.payload_bytes_per_step = largest_per_step(result.payload_by_rank, result.steps_by_rank);
  // Exchanges that overlap wait at the same time, so their sum may be longer than the step; the stages that compute
  // are the least that it took.
  const Traffic& traffic = result.traffic;
  const double stages =
      result.gradient_seconds + result.select_seconds + traffic.encode_seconds + traffic.decode_seconds;
  const double steps = at_least_one(result.steps);
  figures.step_seconds = result.step_seconds / steps;
  figures.compute_seconds =
      std::min(result.step_seconds, std::max(result.step_seconds - traffic.exchange_seconds, stages)) / steps;
  return figures;
}

}  // namespace laconic
