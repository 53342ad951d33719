#pragma once

#include "experiment/run.h"
#include "network/forecast.h"

namespace laconic {

/// What a method cost one rank. Bytes and messages are those of the rank that has the most, because it is the one that
/// the others wait for; figures a step are means over its local steps. Seconds are those of the rank whose result it
/// is.
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
