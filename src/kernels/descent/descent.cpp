#include "kernels/descent/descent.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/descent/twins.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/flagged.h"
#include "kernels/residual.h"

namespace laconic {
namespace {

constexpr std::size_t kCut = 16;  ///< ranges begin at whole cache lines

void require_views(Place& place, std::size_t size, std::initializer_list<View<const float>> views) {
  for (const View<const float>& view : views) {
    require_same_device("of a step", view.device(), place.device());
    require_size("of a step", view.size(), size);
  }
}

enum class Momentum : std::uint8_t { none, plain, nesterov };

// Loops without a branch, which compilers turn into vectors.

template <bool kDecays, Momentum kMomentum>
void sgd_loop(const Coefficients& step, Range range, const float* gradient, float* first, float* model) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float direction = gradient[i];
    if constexpr (kDecays) direction = direction + step.weight_decay * model[i];
    if constexpr (kMomentum != Momentum::none) {
      const float moment = step.momentum * first[i] + direction;
      first[i] = moment;
      direction = kMomentum == Momentum::nesterov ? direction + step.momentum * moment : moment;
    }
    model[i] = model[i] - step.learning_rate * direction;
  }
}

template <bool kDecays>
auto sgd_loop_of(bool has_momentum, bool nesterov) {
  if (!has_momentum) return sgd_loop<kDecays, Momentum::none>;
  return nesterov ? sgd_loop<kDecays, Momentum::nesterov> : sgd_loop<kDecays, Momentum::plain>;
}

template <bool kDecays>
void adam_loop(const AdamCoefficients& step, Range range, const float* gradient, float* first, float* second,
               float* model) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    float direction = gradient[i];
    if constexpr (kDecays) direction = direction + step.weight_decay * model[i];
    const float mean = step.beta1 * first[i] + step.fresh1 * direction;
    const float square = step.beta2 * second[i] + step.fresh2 * (direction * direction);
    first[i] = mean;
    second[i] = square;
    const float root = std::sqrt(square / step.correction2) + step.epsilon;
    model[i] = step.shrink * model[i] - step.learning_rate * ((mean / step.correction1) / root);
  }
}

/// Entries that stay in the nearest cache from one loop to the next.
constexpr std::size_t kCached = 2'048;

/// One range of add_step_to_error. Returns whether a NaN or an Inf came up.
bool error_loop(const Coefficients& step, Range range, View<float> gradient, const ErrorFeedback& memory) {
  const float beta = step.momentum;
  const View<float> m = memory.momentum;
  const View<float> p = memory.next_error;
  const View<const float> direction = beta == 0.0F ? gradient : step.nesterov ? p : m;
  FiniteWatch finite;
  for (std::size_t begin = range.begin; begin < range.end; begin += kCached) {
    const std::size_t end = std::min(begin + kCached, range.end);
    if (step.weight_decay != 0.0F) {
      for (std::size_t i = begin; i < end; ++i) gradient[i] = gradient[i] + step.weight_decay * memory.model[i];
    }
    if (beta != 0.0F && step.nesterov) {
      for (std::size_t i = begin; i < end; ++i) p[i] = gradient[i] + beta * (beta * m[i] + gradient[i]);
    }
    if (beta != 0.0F) {
      for (std::size_t i = begin; i < end; ++i) {
        const float before = m[i];
        m[i] = beta * before + gradient[i];
        gradient[i] = before;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      p[i] = with_residual(step.learning_rate * direction[i], memory.error[i]);
      finite.see(p[i]);
    }
  }
  return finite.saw_nonfinite();
}

}  // namespace

void sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<float> momentum,
              View<float> model) {
  require_views(place, model.size(), {gradient, model});
  if (!momentum.empty()) require_views(place, model.size(), {momentum});
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(sgd_step, place, coefficients, gradient, momentum, model);
  }
  const auto loop = coefficients.weight_decay != 0.0F ? sgd_loop_of<true>(!momentum.empty(), coefficients.nesterov)
                                                      : sgd_loop_of<false>(!momentum.empty(), coefficients.nesterov);
  const Touch touch(place);
  parallel_ranges(place.pool(), model.size(), kCut, [&](Range range) {
    loop(coefficients, range, gradient.data(), momentum.data(), model.data());
  });
}

void adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient, View<float> first,
               View<float> second, View<float> model) {
  require_views(place, model.size(), {gradient, first, second, model});
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(adam_step, place, coefficients, gradient, first, second, model);
  }
  const auto loop = coefficients.weight_decay != 0.0F ? adam_loop<true> : adam_loop<false>;
  const Touch touch(place);
  parallel_ranges(place.pool(), model.size(), kCut, [&](Range range) {
    loop(coefficients, range, gradient.data(), first.data(), second.data(), model.data());
  });
}

void blend(Place& place, float share, View<const float> x, View<float> y) {
  require_views(place, y.size(), {x, y});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(blend, place, share, x, y);
  const float rest = 1.0F - share;
  const Touch touch(place);
  parallel_ranges(place.pool(), y.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) y[i] = rest * y[i] + share * x[i];
  });
}

void running_mean(Place& place, float beta, View<const float> before, View<const float> gradient, View<float> out) {
  require_views(place, out.size(), {before, gradient, out});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(running_mean, place, beta, before, gradient, out);
  const float fresh = 1.0F - beta;
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = beta * before[i] + fresh * gradient[i];
  });
}

void subtract_scaled(Place& place, View<const float> x, float scale, View<const float> y, View<float> out) {
  require_views(place, out.size(), {x, y, out});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(subtract_scaled, place, x, scale, y, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = x[i] - scale * y[i];
  });
}

void scale(Place& place, float factor, View<float> values) {
  require_views(place, values.size(), {values});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(scale, place, factor, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) values[i] = factor * values[i];
  });
}

void scaled_difference(Place& place, float factor, View<const float> x, View<const float> y, View<float> out,
                       StatusView status) {
  require_views(place, out.size(), {x, y, out});
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(scaled_difference, place, factor, x, y, out, status);
  }
  parallel_flagged(place, out.size(), status, [&](Range range) {
    FiniteWatch finite;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      out[i] = factor * x[i] - y[i];
      finite.see(out[i]);
    }
    return finite.saw_nonfinite();
  });
}

void subtract_difference(Place& place, View<const float> x, View<const float> y, View<float> out) {
  require_views(place, out.size(), {x, y, out});
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(subtract_difference, place, x, y, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = out[i] - (x[i] - y[i]);
  });
}

void add_residual(Place& place, View<const float> values, View<const float> residual, View<float> out,
                  StatusView status) {
  require_views(place, out.size(), {values, residual, out});
  require_status(place, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(add_residual, place, values, residual, out, status);
  parallel_flagged(place, out.size(), status, [&](Range range) {
    FiniteWatch finite;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      out[i] = with_residual(values[i], residual[i]);
      finite.see(out[i]);
    }
    return finite.saw_nonfinite();
  });
}

void add_step_to_error(Place& place, const Coefficients& coefficients, View<float> gradient, const ErrorFeedback& memory,
                       StatusView status) {
  require_views(place, gradient.size(), {gradient, memory.model, memory.error, memory.next_error});
  if (coefficients.momentum != 0.0F) require_views(place, gradient.size(), {memory.momentum});
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(add_step_to_error, place, coefficients, gradient, memory, status);
  }
  parallel_flagged(place, gradient.size(), status,
                   [&](Range range) { return error_loop(coefficients, range, gradient, memory); });
}

void follow_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<const float> momentum,
                 View<float> model) {
  const float learning_rate = coefficients.learning_rate;
  const float beta = coefficients.momentum;
  if (beta == 0.0F) return axpy(place, -learning_rate, gradient, model);
  if (!coefficients.nesterov) return axpy(place, -learning_rate, momentum, model);
  require_views(place, model.size(), {gradient, momentum, model});
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(follow_nesterov_step, place, coefficients, gradient, momentum, model);
  }
  const Touch touch(place);
  parallel_ranges(place.pool(), model.size(), kCut, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const float g = momentum[i] - beta * gradient[i];
      model[i] -= learning_rate * (g + beta * momentum[i]);
    }
  });
}

}  // namespace laconic
