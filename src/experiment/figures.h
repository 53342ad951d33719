#pragma once

#include "experiment/run.h"
#include "network/forecast.h"

namespace laconic {

/// What a method cost one rank. Each figure of bytes is the largest over ranks, because the others wait for that rank.
/// Different figures may come from different ranks: in an asynchronous run the rank that sends most in total may send
/// less per step. Figures per step are means over a rank's local steps, of ranks that made one. Messages are those of
/// the rank that sends most per step. Seconds are those of the rank to which the result belongs.
struct RankFigures {
  double payload_bytes_per_step = 0.0;
  double sent_bytes_per_step = 0.0;
  double sent_messages_per_step = 0.0;
  std::uint64_t total_sent_bytes = 0;
  double step_seconds = 0.0;
  double compute_seconds = 0.0;  ///< the part of a step that does not wait for messages

  StepCost step_cost() const { return {compute_seconds, sent_messages_per_step, sent_bytes_per_step}; }
};

RankFigures rank_figures(const RunResult& result);

}  // namespace laconic
