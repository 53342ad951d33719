#pragma once

#include "experiment/run.h"
#include "network/forecast.h"

namespace laconic {

/// What a method cost one rank. Bytes are the largest over ranks, because the others wait for that one, each figure by
/// itself: in an asynchronous run the rank that sends most in all may send less a step. Figures a step are means over
/// a rank's local steps; messages are those of the rank that sends most a step. Seconds are those of the rank whose
/// result it is.
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
