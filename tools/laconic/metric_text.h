#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "text_table.h"

namespace laconic::tools {

/// What a run is judged by beside its loss, for people to read.
struct MetricText {
  std::string name;
  std::string value;  ///< "-" where it is not known
};

/// Of a step's record or of a result: accuracy where a network classifies, perplexity where it models language, else
/// the distance from the optimum.
template <class Figures>
MetricText metric_text(const Figures& figures) {
  if (figures.accuracy) return {"accuracy", percent_text(*figures.accuracy)};
  if (figures.perplexity) return {"perplexity", fmt::format("{:.4g}", *figures.perplexity)};
  return {"distance", figures.distance ? fmt::format("{:.4e}", *figures.distance) : "-"};
}

}  // namespace laconic::tools
