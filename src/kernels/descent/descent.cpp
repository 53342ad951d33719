#include "kernels/descent/descent.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/convert/blocks.h"
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

void require_gradient(Place& place, std::size_t size, ConstGradientView gradient) {
  require_same_device("gradient", gradient.device(), place.device());
  require_size("gradient", gradient.size(), size);
}

enum class Momentum : std::uint8_t { none, plain, nesterov };

// Loops without a branch, which compilers turn into vectors.

struct Moved {
  float model;
  float momentum;
};

template <bool kDecays, Momentum kMomentum>
inline Moved moved(const Coefficients& step, float gradient, float momentum, float model) {
  float direction = gradient;
  if constexpr (kDecays) direction = direction + step.weight_decay * model;
  float moment = 0.0F;
  if constexpr (kMomentum != Momentum::none) {
    moment = step.momentum * momentum + direction;
    direction = kMomentum == Momentum::nesterov ? direction + step.momentum * moment : moment;
  }
  return {model - step.learning_rate * direction, moment};
}

template <bool kDecays, Momentum kMomentum>
void sgd_loop(const Coefficients& step, Range range, const float* gradient, float* first, float* model) {
  constexpr bool kHasMomentum = kMomentum != Momentum::none;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const Moved next = moved<kDecays, kMomentum>(step, gradient[i], kHasMomentum ? first[i] : 0.0F, model[i]);
    if constexpr (kHasMomentum) first[i] = next.momentum;
    model[i] = next.model;
  }
}

template <bool kDecays, Momentum kMomentum>
void sgd_try_loop(const Coefficients& step, Range range, const float* gradient, const float* first_before,
                  const float* model_before, float* __restrict first, float* __restrict model) {
  constexpr bool kHasMomentum = kMomentum != Momentum::none;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const float momentum = kHasMomentum ? first_before[i] : 0.0F;
    const Moved next = moved<kDecays, kMomentum>(step, gradient[i], momentum, model_before[i]);
    if constexpr (kHasMomentum) first[i] = next.momentum;
    model[i] = next.model;
  }
}

/// Calls with the two choices of a step of SGD as constants.
template <class Call>
void with_sgd(const Coefficients& step, bool has_momentum, const Call& call) {
  const auto with_decay = [&]<bool kDecays>() {
    if (!has_momentum) return call.template operator()<kDecays, Momentum::none>();
    if (step.nesterov) return call.template operator()<kDecays, Momentum::nesterov>();
    return call.template operator()<kDecays, Momentum::plain>();
  };
  step.weight_decay != 0.0F ? with_decay.template operator()<true>() : with_decay.template operator()<false>();
}

struct Adapted {
  float model;
  float mean;
  float square;
};

template <bool kDecays>
inline Adapted adapted(const AdamCoefficients& step, float gradient, float first, float second, float model) {
  float direction = gradient;
  if constexpr (kDecays) direction = direction + step.weight_decay * model;
  const float mean = step.beta1 * first + step.fresh1 * direction;
  const float square = step.beta2 * second + step.fresh2 * (direction * direction);
  const float root = std::sqrt(square / step.correction2) + step.epsilon;
  return {step.shrink * model - step.learning_rate * ((mean / step.correction1) / root), mean, square};
}

template <bool kDecays>
void adam_loop(const AdamCoefficients& step, Range range, const float* gradient, float* first, float* second,
               float* model) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const Adapted next = adapted<kDecays>(step, gradient[i], first[i], second[i], model[i]);
    first[i] = next.mean;
    second[i] = next.square;
    model[i] = next.model;
  }
}

template <bool kDecays>
void adam_try_loop(const AdamCoefficients& step, Range range, const float* gradient,
                   const StepMemory<const float>& before, float* __restrict first, float* __restrict second,
                   float* __restrict model) {
  const float* first_before = before.first.data();
  const float* second_before = before.second.data();
  const float* model_before = before.model.data();
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const Adapted next = adapted<kDecays>(step, gradient[i], first_before[i], second_before[i], model_before[i]);
    first[i] = next.mean;
    second[i] = next.square;
    model[i] = next.model;
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
  const Touch touch(place);
  with_sgd(coefficients, !momentum.empty(), [&]<bool kDecays, Momentum kMomentum>() {
    parallel_ranges(place.pool(), model.size(), kCut, [&](Range range) {
      sgd_loop<kDecays, kMomentum>(coefficients, range, gradient.data(), momentum.data(), model.data());
    });
  });
}

void try_sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                  const StepMemory<const float>& before, const StepMemory<float>& after) {
  require_views(place, after.model.size(), {gradient, before.model, after.model});
  if (!after.first.empty()) require_views(place, after.model.size(), {before.first, after.first});
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(try_sgd_step, place, coefficients, gradient, before, after);
  }
  const Touch touch(place);
  with_sgd(coefficients, !after.first.empty(), [&]<bool kDecays, Momentum kMomentum>() {
    parallel_ranges(place.pool(), after.model.size(), kCut, [&](Range range) {
      sgd_try_loop<kDecays, kMomentum>(coefficients, range, gradient.data(), before.first.data(), before.model.data(),
                                       after.first.data(), after.model.data());
    });
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

void try_adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient,
                   const StepMemory<const float>& before, const StepMemory<float>& after) {
  require_views(place, after.model.size(),
                {gradient, before.first, before.second, before.model, after.first, after.second, after.model});
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(try_adam_step, place, coefficients, gradient, before, after);
  }
  const auto loop = coefficients.weight_decay != 0.0F ? adam_try_loop<true> : adam_try_loop<false>;
  const Touch touch(place);
  parallel_ranges(place.pool(), after.model.size(), kCut, [&](Range range) {
    loop(coefficients, range, gradient.data(), before, after.first.data(), after.second.data(), after.model.data());
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

void running_mean(Place& place, float beta, View<const float> before, ConstGradientView gradient, View<float> out) {
  require_views(place, out.size(), {before, out});
  require_gradient(place, out.size(), gradient);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(running_mean, place, beta, before, gradient, out);
  const float fresh = 1.0F - beta;
  const Touch touch(place);
  parallel_ranges(place.pool(), out.size(), kCut, [&](Range range) {
    for_each_float_block(place.simd(), gradient, range, [&](View<const float> block, std::size_t begin) {
      for (std::size_t i = 0; i < block.size(); ++i) out[begin + i] = beta * before[begin + i] + fresh * block[i];
    });
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

void add_residual(Place& place, ConstGradientView values, View<const float> residual, View<float> out,
                  StatusView status) {
  require_views(place, out.size(), {residual, out});
  require_gradient(place, out.size(), values);
  require_status(place, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(add_residual, place, values, residual, out, status);
  parallel_flagged(place, out.size(), status, [&](Range range) {
    FiniteWatch finite;
    for_each_float_block(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        out[begin + i] = with_residual(block[i], residual[begin + i]);
        finite.see(out[begin + i]);
      }
    });
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
