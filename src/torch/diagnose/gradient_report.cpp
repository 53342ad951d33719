#include "torch/diagnose/gradient_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/buffer.h"
#include "laconic/error.h"

namespace laconic {
namespace {

double squared_norm(View<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

void add(EnergyShares& sum, const EnergyShares& more, double weight) {
  sum.top_thousandth += weight * more.top_thousandth;
  sum.top_hundredth += weight * more.top_hundredth;
  sum.top_tenth += weight * more.top_tenth;
}

void require_finite(double value) {
  if (!std::isfinite(value)) {
    throw Error("the gradients at this point are not finite: the run has diverged; take an earlier checkpoint");
  }
}

/// What the two moments say.
void describe(const Moments& moments, GradientReport& report) {
  const std::vector<float> mean = moments.mean();
  const std::vector<float> noise = moments.deviation();
  const double signal = squared_norm(mean);
  const double variance = squared_norm(noise);
  require_finite(signal + variance);
  const double left_over = variance / moments.count();
  report.gradient_norm = std::sqrt(signal);
  report.gradient_density = density(mean);
  report.noise_density = density(noise);
  report.doubt = signal > 0.0 ? std::min(1.0, left_over / signal) : 0.0;
  const double clean = signal - left_over;
  report.noise_to_signal = variance == 0.0 ? 0.0
                           : clean > 0.0   ? variance / clean
                                           : std::numeric_limits<double>::infinity();
}

}  // namespace

GradientReport gradient_report(const RunConfig& config, const Workload& workload, View<const float> model,
                               const GradientOptions& options, const ShareDone& progress) {
  const auto gradients = std::uint64_t{options.batches} * static_cast<std::uint64_t>(config.workers);
  if (gradients < 2) throw InvalidConfig("batches must be 2 or more for one worker, and 1 or more for several");
  std::vector<std::unique_ptr<Learner>> learners;
  for (int rank = 0; rank < config.workers; ++rank) learners.push_back(workload.make_learner(config, rank));
  Buffer<float> point_memory(model.size()), gradient_memory(model.size());
  const View<float> point = point_memory.view(model.size());
  const View<float> gradient = gradient_memory.view(model.size());
  std::copy(model.begin(), model.end(), point.begin());

  GradientReport report;
  report.parameters = model.size();
  report.gradients = gradients;
  Moments moments(model.size());
  SignAgreement signs(model.size(), config.workers);
  std::vector<float> scratch;
  const double weight = 1.0 / static_cast<double>(gradients);
  for (std::uint32_t batch = 0; batch < options.batches; ++batch) {
    for (const auto& learner : learners) {
      report.loss += weight * learner->gradient(options.first_step + batch, point, gradient, {});
      moments.add(gradient);
      signs.add(gradient);
      add(report.energy, energy_shares(gradient, scratch), weight);
      if (progress) progress(weight * moments.count());
    }
  }
  describe(moments, report);
  report.majority = signs.majority();
  report.unanimous = signs.unanimous();
  report.silent = signs.silent();
  return report;
}

}  // namespace laconic
