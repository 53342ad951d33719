#include "problems/quadratic.h"

#include <algorithm>

#include "base/check.h"
#include "laconic/error.h"
#include "problems/functions.h"
#include "problems/makers.h"

namespace laconic {
namespace {

using problems::normal;

enum Array : std::uint32_t { kStart, kOffset };

double wide(float value) { return static_cast<double>(value); }

class NoisyQuadratic final : public Problem {
 public:
  NoisyQuadratic(Quadratic quadratic, int workers, std::uint64_t seed)
      : Problem("noisy-quadratic", workers), it_(std::move(quadratic)), seed_(seed) {
    const std::size_t n = it_.curvature.size();
    require_size("noise", it_.noise.size(), n);
    require_size("start", it_.start.size(), n);
    if (!it_.offsets.empty()) require_size("offsets", it_.offsets.size(), static_cast<std::size_t>(workers));
    for (const auto& offset : it_.offsets) require_size("offset", offset.size(), n);
    tensors_ = it_.tensors.empty() ? even_tensors(n, 1) : it_.tensors;
    std::uint64_t sum = 0;
    for (const Tensor& tensor : tensors_) sum += tensor.size;
    require_size("tensors", sum, n);
    start_ = it_.start;
    optimum_.assign(n, 0.0);
    for (const auto& offset : it_.offsets) {
      for (std::size_t i = 0; i < n; ++i) optimum_[i] += wide(offset[i]) / workers;
    }
    const auto [low, high] = std::minmax_element(it_.curvature.begin(), it_.curvature.end());
    smoothness_ = wide(*high);
    if (*low > 0.0F) convexity_ = wide(*low);
  }

  double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const override {
    const RandomStream stream{seed_, step, static_cast<std::uint32_t>(worker), 0, Purpose::problem_noise};
    const float* offset = it_.offsets.empty() ? nullptr : it_.offsets[static_cast<std::size_t>(worker)].data();
    double loss = 0.0;
    for (std::size_t i = 0; i < point.size(); ++i) {
      const float away = offset == nullptr ? point[i] : point[i] - offset[i];
      const float pull = it_.curvature[i] * away;
      loss += wide(pull) * wide(away);
      out[i] = it_.noise[i] == 0.0F ? pull : pull + it_.noise[i] * static_cast<float>(normal(stream, i));
    }
    return 0.5 * loss;
  }

  double loss(View<const float> point) const override {
    if (it_.offsets.empty()) return loss_about(nullptr, point);
    double sum = 0.0;
    for (const auto& offset : it_.offsets) sum += loss_about(offset.data(), point);
    return sum / workers();
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    for (std::size_t i = 0; i < point.size(); ++i) {
      out[i] = static_cast<float>(wide(it_.curvature[i]) * (wide(point[i]) - optimum_[i]));
    }
  }

 private:
  double loss_about(const float* offset, View<const float> point) const {
    double loss = 0.0;
    for (std::size_t i = 0; i < point.size(); ++i) {
      const double away = wide(point[i]) - (offset == nullptr ? 0.0 : wide(offset[i]));
      loss += 0.5 * wide(it_.curvature[i]) * away * away;
    }
    return loss;
  }

  Quadratic it_;
  std::uint64_t seed_;
};

/// The first `count` entries `value`, the others `rest`; a count of 0 means all.
std::vector<float> first_entries(std::size_t n, std::uint32_t count, double value, double rest) {
  std::vector<float> entries(n, static_cast<float>(rest));
  std::fill_n(entries.begin(), count == 0 ? n : std::min<std::size_t>(n, count), static_cast<float>(value));
  return entries;
}

/// Normal offsets with their mean over the workers taken out.
std::vector<std::vector<float>> draw_offsets(std::size_t n, int workers, double deviation, std::uint64_t seed) {
  std::vector<std::vector<float>> offsets(static_cast<std::size_t>(workers), std::vector<float>(n));
  std::vector<double> drawn(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < n; ++i) {
    double mean = 0.0;
    for (std::size_t worker = 0; worker < drawn.size(); ++worker) {
      const RandomStream stream{seed, 0, static_cast<std::uint32_t>(worker), kOffset, Purpose::problem_data};
      drawn[worker] = deviation * normal(stream, i);
      mean += drawn[worker] / workers;
    }
    for (std::size_t worker = 0; worker < drawn.size(); ++worker) {
      offsets[worker][i] = static_cast<float>(drawn[worker] - mean);
    }
  }
  return offsets;
}

}  // namespace

std::unique_ptr<Problem> make_quadratic(Quadratic quadratic, int workers, std::uint64_t seed) {
  if (quadratic.curvature.empty()) throw InvalidConfig("a quadratic needs at least one coordinate, got none");
  return std::make_unique<NoisyQuadratic>(std::move(quadratic), workers, seed);
}

std::unique_ptr<Problem> make_noisy_quadratic(const ProblemSettings& settings, int workers, std::uint64_t seed) {
  const std::size_t n = settings.whole("dimension");
  Quadratic quadratic;
  quadratic.curvature =
      first_entries(n, settings.whole("curved"), settings.number("curvature"), settings.number("flat"));
  quadratic.noise = first_entries(n, settings.whole("noisy"), settings.number("noise"), 0.0);
  quadratic.start = first_entries(n, settings.whole("started"), settings.number("start"), 0.0);
  const RandomStream stream{seed, 0, kSharedRank, kStart, Purpose::problem_data};
  for (std::size_t i = 0; i < n; ++i) quadratic.start[i] *= static_cast<float>(normal(stream, i));
  if (settings.number("offset") > 0.0) {
    quadratic.offsets = draw_offsets(n, workers, settings.number("offset"), seed);
  }
  quadratic.tensors = even_tensors(n, settings.whole("tensors"));
  return make_quadratic(std::move(quadratic), workers, seed);
}

}  // namespace laconic
