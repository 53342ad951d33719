#include "torch/deep/figures.h"

namespace laconic::deep {

std::vector<const DeepResult*> Figures::of(std::string_view run) const {
  std::vector<const DeepResult*> found;
  for (const DeepResult& result : results_) {
    if (result.run == run) found.push_back(&result);
  }
  return found;
}

template <class Figure>
double Figures::mean(std::string_view run, Figure figure) const {
  double sum = 0.0;
  const auto results = of(run);
  for (const DeepResult* result : results) sum += figure(*result);
  return results.empty() ? Independent::kNone : sum / static_cast<double>(results.size());
}

double Figures::accuracy(std::string_view run, double share) const {
  return mean(run, [&](const DeepResult& result) { return result.after(share); });
}
double Figures::bits(std::string_view run) const {
  return mean(run, [](const DeepResult& result) { return result.mean_bits; });
}
double Figures::rounds(std::string_view run) const {
  return mean(run, [](const DeepResult& result) { return static_cast<double>(result.rounds); });
}
double Figures::trace(std::string_view run) const {
  return mean(run, [](const DeepResult& result) { return result.flatness.trace; });
}
double Figures::largest(std::string_view run) const {
  return mean(run, [](const DeepResult& result) { return result.flatness.largest; });
}

void append(std::string& text, std::string_view separator, std::string_view part) {
  if (!text.empty()) text += separator;
  text += part;
}

double tolerance(const DeepRun& run) { return std::string_view(run.name) == "def-1024" ? 2.5 : 1.0; }

}  // namespace laconic::deep
