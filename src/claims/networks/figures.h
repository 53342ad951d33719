#pragma once

#include <string_view>
#include <vector>

#include "claims/networks/results.h"

namespace laconic::claims {

/// Results of runs, means over seeds. Figures of a run that is not there are NaN.
class Figures {
 public:
  explicit Figures(std::vector<NetworkResult> results) : results_(std::move(results)) {}

  const std::vector<NetworkResult>& all() const { return results_; }
  std::vector<const NetworkResult*> of(std::string_view run) const;

  /// Percent, after this share of the steps (NetworkResult::after).
  double accuracy(std::string_view run, double share = 1.0) const;
  /// Of the test or validation, at the end.
  double loss(std::string_view run) const;
  /// Bytes that the rank that sends the most sends per step.
  double bytes(std::string_view run) const;
  double bits(std::string_view run) const;
  double rounds(std::string_view run) const;
  double trace(std::string_view run) const;
  double largest(std::string_view run) const;

 private:
  template <class Figure>
  double mean(std::string_view run, Figure figure) const;

  std::vector<NetworkResult> results_;
};

/// Adds a part to a list that is a text.
void append(std::string& text, std::string_view separator, std::string_view part);

}  // namespace laconic::claims
