#include "experiment/figures.h"

#include <algorithm>

namespace laconic {
namespace {

double at_least_one(std::uint32_t steps) { return std::max(1.0, static_cast<double>(steps)); }

/// What each rank has in a mean step of its own; 0 for a rank that made none.
std::vector<double> per_step(const std::vector<std::uint64_t>& by_rank, const std::vector<std::uint32_t>& steps) {
  std::vector<double> means;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    means.push_back(steps[i] == 0 ? 0.0 : static_cast<double>(by_rank[i]) / steps[i]);
  }
  return means;
}

}  // namespace

RankFigures rank_figures(const RunResult& result) {
  RankFigures figures;
  const auto& steps_by_rank = result.steps_by_rank;
  if (const auto& sent = result.sent_by_rank; !sent.empty()) {
    const auto means = per_step(sent, steps_by_rank);
    const auto most = std::max_element(means.begin(), means.end());
    figures.total_sent_bytes = *std::max_element(sent.begin(), sent.end());
    figures.sent_bytes_per_step = *most;
    figures.sent_messages_per_step =
        per_step(result.messages_by_rank, steps_by_rank)[static_cast<std::size_t>(most - means.begin())];
  }
  for (const double mean : per_step(result.payload_by_rank, steps_by_rank)) {
    figures.payload_bytes_per_step = std::max(figures.payload_bytes_per_step, mean);
  }
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
