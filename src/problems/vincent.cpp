// Vincent's function, of the GRAWA paper's toy: f(x, y) = −sin(10 ln x) − sin(10 ln y) on [0.25, 10]², minima of depth
// −2 that grow wider with x and y. Four workers start in the corners. Beyond its square it goes on straight, with the
// slope of the border, so that no step ends in a NaN.

#include <algorithm>
#include <cmath>

#include "problems/functions.h"
#include "problems/makers.h"

namespace laconic {
namespace {

constexpr double kLow = 0.25;
constexpr double kHigh = 10.0;

double slope(double x) {
  if (!std::isfinite(x)) return x;  // clamped it would look sound
  const double inside = std::clamp(x, kLow, kHigh);
  return -10.0 * problems::cosine(10.0 * problems::natural_log(inside)) / inside;
}

double value(double x) {
  if (!std::isfinite(x)) return x;
  const double inside = std::clamp(x, kLow, kHigh);
  return -problems::sine(10.0 * problems::natural_log(inside)) + (x - inside) * slope(inside);
}

class Vincent final : public Problem {
 public:
  Vincent(double noise, int workers, std::uint64_t seed)
      : Problem("vincent", workers), noise_(static_cast<float>(noise)), seed_(seed) {
    tensors_ = {{"x", 1}, {"y", 1}};
    constexpr auto kMiddle = static_cast<float>((kLow + kHigh) / 2.0);
    start_ = {kMiddle, kMiddle};
  }

  std::vector<float> start_of(int worker) const override {
    return {static_cast<float>(worker / 2 % 2 == 0 ? kLow : kHigh), static_cast<float>(worker % 2 == 0 ? kLow : kHigh)};
  }

  double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const override {
    shared_gradient(point, out);
    if (noise_ > 0.0F) {
      const RandomStream stream{seed_, step, static_cast<std::uint32_t>(worker), 0, Purpose::problem_noise};
      for (std::size_t i = 0; i < 2; ++i) out[i] += noise_ * static_cast<float>(problems::normal(stream, i));
    }
    return loss(point);
  }

  double loss(View<const float> point) const override {
    return value(static_cast<double>(point[0])) + value(static_cast<double>(point[1]));
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    for (std::size_t i = 0; i < 2; ++i) out[i] = static_cast<float>(slope(static_cast<double>(point[i])));
  }

 private:
  float noise_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Problem> make_vincent(const ProblemSettings& settings, int workers, std::uint64_t seed) {
  return std::make_unique<Vincent>(settings.number("noise"), workers, seed);
}

}  // namespace laconic
