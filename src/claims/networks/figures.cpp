#include "claims/networks/figures.h"

#include <algorithm>
#include <cmath>

namespace laconic::claims {

double NetworkResult::after(double share) const {
  if (share == 1.0) return accuracy;
  const auto sixths = static_cast<std::uint64_t>(std::llround(6.0 * share));
  const auto found = accuracies.find(sixths * std::max(1U, steps / 6));
  return found == accuracies.end() ? Independent::kNone : found->second;
}

std::vector<const NetworkResult*> Figures::of(std::string_view run) const {
  std::vector<const NetworkResult*> found;
  for (const NetworkResult& result : results_) {
    if (result.run == run) found.push_back(&result);
  }
  return found;
}

template <class Figure>
double Figures::mean(std::string_view run, Figure figure) const {
  double sum = 0.0;
  const auto results = of(run);
  for (const NetworkResult* result : results) sum += figure(*result);
  return results.empty() ? Independent::kNone : sum / static_cast<double>(results.size());
}

double Figures::accuracy(std::string_view run, double share) const {
  return mean(run, [&](const NetworkResult& result) { return result.after(share); });
}
double Figures::loss(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return result.loss; });
}
double Figures::bytes(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return result.sent_bytes_per_step; });
}
double Figures::bits(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return result.mean_bits; });
}
double Figures::rounds(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return static_cast<double>(result.rounds); });
}
double Figures::trace(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return result.flatness.trace; });
}
double Figures::largest(std::string_view run) const {
  return mean(run, [](const NetworkResult& result) { return result.flatness.largest; });
}

void append(std::string& text, std::string_view separator, std::string_view part) {
  if (!text.empty()) text += separator;
  text += part;
}

}  // namespace laconic::claims
