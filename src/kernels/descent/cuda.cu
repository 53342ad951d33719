#include "kernels/convert/cuda/numbers.h"
#include "kernels/descent/twins.h"
#include "kernels/residual.h"

// Twins of kernels/descent, the formulas as descent.cpp has them. Products and sums are rounded separately because nvcc
// is told -fmad=false; quotients and roots are the rounded ones of IEEE, which is nvcc's default.

namespace laconic::cuda {
namespace {

enum class Momentum : std::uint8_t { none, plain, nesterov };

struct Moved {
  float model;
  float momentum;
};

template <bool kDecays, Momentum kMomentum>
__global__ void sgd_kernel(Coefficients step, const float* gradient, const float* momentum_before,
                           const float* model_before, float* momentum, float* model, std::uint64_t n) {
  load_then_store(
      n,
      [=](std::uint64_t i) {
        const float before = model_before[i];
        float direction = gradient[i];
        if constexpr (kDecays) direction = direction + step.weight_decay * before;
        float moment = 0.0F;
        if constexpr (kMomentum != Momentum::none) {
          moment = step.momentum * momentum_before[i] + direction;
          direction = kMomentum == Momentum::nesterov ? direction + step.momentum * moment : moment;
        }
        return Moved{before - step.learning_rate * direction, moment};
      },
      [=](std::uint64_t i, const Moved& moved) {
        model[i] = moved.model;
        if constexpr (kMomentum != Momentum::none) momentum[i] = moved.momentum;
      });
}

template <bool kDecays>
auto sgd_kernel_of(bool has_momentum, bool nesterov) {
  if (!has_momentum) return sgd_kernel<kDecays, Momentum::none>;
  return nesterov ? sgd_kernel<kDecays, Momentum::nesterov> : sgd_kernel<kDecays, Momentum::plain>;
}

struct Adapted {
  float model;
  float mean;
  float square;
};

template <bool kDecays>
__global__ void adam_kernel(AdamCoefficients step, const float* gradient, const float* first_before,
                            const float* second_before, const float* model_before, float* first, float* second,
                            float* model, std::uint64_t n) {
  load_then_store(
      n,
      [=](std::uint64_t i) {
        const float before = model_before[i];
        float direction = gradient[i];
        if constexpr (kDecays) direction = direction + step.weight_decay * before;
        const float mean = step.beta1 * first_before[i] + step.fresh1 * direction;
        const float square = step.beta2 * second_before[i] + step.fresh2 * (direction * direction);
        const float root = __fsqrt_rn(square / step.correction2) + step.epsilon;
        return Adapted{step.shrink * before - step.learning_rate * ((mean / step.correction1) / root), mean, square};
      },
      [=](std::uint64_t i, const Adapted& adapted) {
        model[i] = adapted.model;
        first[i] = adapted.mean;
        second[i] = adapted.square;
      });
}

__global__ void blend_kernel(float share, float rest, const float* x, float* y, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return rest * y[i] + share * x[i]; }, [=](std::uint64_t i, float sum) { y[i] = sum; });
}

template <class Number>
__global__ void running_mean_kernel(float beta, float fresh, const float* before, const Number* gradient, float* out,
                                    std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return beta * before[i] + fresh * widened(gradient[i]); },
      [=](std::uint64_t i, float mean) { out[i] = mean; });
}

__global__ void subtract_scaled_kernel(const float* x, float scale, const float* y, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return x[i] - scale * y[i]; }, [=](std::uint64_t i, float left) { out[i] = left; });
}

__global__ void scale_kernel(float factor, float* values, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return factor * values[i]; },
      [=](std::uint64_t i, float scaled) { values[i] = scaled; });
}

__global__ void scaled_difference_kernel(float factor, const float* x, const float* y, float* out, std::uint64_t n,
                                         Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return factor * x[i] - y[i]; },
      [&](std::uint64_t i, float difference) {
        out[i] = difference;
        nonfinite |= is_nonfinite(difference);
      });
  if (nonfinite) status->nonfinite = 1;
}

__global__ void subtract_difference_kernel(const float* x, const float* y, float* out, std::uint64_t n) {
  load_then_store(
      n, [=](std::uint64_t i) { return out[i] - (x[i] - y[i]); },
      [=](std::uint64_t i, float left) { out[i] = left; });
}

template <class Number>
__global__ void add_residual_kernel(const Number* values, const float* residual, float* out, std::uint64_t n,
                                    Status* status) {
  bool nonfinite = false;
  load_then_store(
      n, [=](std::uint64_t i) { return with_residual(widened(values[i]), residual[i]); },
      [&](std::uint64_t i, float sum) {
        out[i] = sum;
        nonfinite |= is_nonfinite(sum);
      });
  if (nonfinite) status->nonfinite = 1;
}

/// The memory of add_step_to_error.
struct ErrorMemory {
  const float* model;
  const float* error;
  float* next_error;
  float* momentum;
};

struct Owed {
  float next_error;
  float momentum;
  float gradient;
};

template <bool kDecays, Momentum kMomentum>
__global__ void error_kernel(Coefficients step, float* gradient, ErrorMemory memory, std::uint64_t n, Status* status) {
  bool nonfinite = false;
  load_then_store(
      n,
      [=](std::uint64_t i) {
        float g = gradient[i];
        if constexpr (kDecays) g = g + step.weight_decay * memory.model[i];
        Owed owed{0.0F, 0.0F, g};
        float direction = g;
        if constexpr (kMomentum != Momentum::none) {
          const float before = memory.momentum[i];
          owed.momentum = step.momentum * before + g;
          owed.gradient = before;
          direction = kMomentum == Momentum::nesterov ? g + step.momentum * owed.momentum : owed.momentum;
        }
        owed.next_error = with_residual(step.learning_rate * direction, memory.error[i]);
        return owed;
      },
      [&](std::uint64_t i, const Owed& owed) {
        memory.next_error[i] = owed.next_error;
        if constexpr (kMomentum != Momentum::none) memory.momentum[i] = owed.momentum;
        if constexpr (kDecays || kMomentum != Momentum::none) gradient[i] = owed.gradient;
        nonfinite |= is_nonfinite(owed.next_error);
      });
  if (nonfinite) status->nonfinite = 1;
}

template <bool kDecays>
auto error_kernel_of(bool has_momentum, bool nesterov) {
  if (!has_momentum) return error_kernel<kDecays, Momentum::none>;
  return nesterov ? error_kernel<kDecays, Momentum::nesterov> : error_kernel<kDecays, Momentum::plain>;
}

__global__ void follow_kernel(float learning_rate, float beta, const float* gradient, const float* momentum,
                              float* model, std::uint64_t n) {
  load_then_store(
      n,
      [=](std::uint64_t i) {
        const float g = momentum[i] - beta * gradient[i];
        return model[i] - learning_rate * (g + beta * momentum[i]);
      },
      [=](std::uint64_t i, float moved) { model[i] = moved; });
}

}  // namespace

void sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<float> momentum,
              View<float> model) {
  cuda::try_sgd_step(place, coefficients, gradient, {momentum, {}, model}, {momentum, {}, model});
}

void try_sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                  const StepMemory<const float>& before, const StepMemory<float>& after) {
  const bool has_momentum = !after.first.empty();
  const auto kernel = coefficients.weight_decay != 0.0F ? sgd_kernel_of<true>(has_momentum, coefficients.nesterov)
                                                        : sgd_kernel_of<false>(has_momentum, coefficients.nesterov);
  launch_over(place, "sgd_step", after.model.size(), kernel, coefficients, gradient.data(), before.first.data(),
              before.model.data(), after.first.data(), after.model.data(), after.model.size());
}

void adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient, View<float> first,
               View<float> second, View<float> model) {
  cuda::try_adam_step(place, coefficients, gradient, {first, second, model}, {first, second, model});
}

void try_adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient,
                   const StepMemory<const float>& before, const StepMemory<float>& after) {
  const auto kernel = coefficients.weight_decay != 0.0F ? adam_kernel<true> : adam_kernel<false>;
  launch_over(place, "adam_step", after.model.size(), kernel, coefficients, gradient.data(), before.first.data(),
              before.second.data(), before.model.data(), after.first.data(), after.second.data(), after.model.data(),
              after.model.size());
}

void blend(Place& place, float share, View<const float> x, View<float> y) {
  launch_over(place, "blend", y.size(), blend_kernel, share, 1.0F - share, x.data(), y.data(), y.size());
}

void running_mean(Place& place, float beta, View<const float> before, ConstGradientView gradient, View<float> out) {
  with_numbers(gradient, [&]<class Number>(const Number* from) {
    launch_over(place, "running_mean", out.size(), running_mean_kernel<Number>, beta, 1.0F - beta, before.data(), from,
                out.data(), out.size());
  });
}

void subtract_scaled(Place& place, View<const float> x, float scale, View<const float> y, View<float> out) {
  launch_over(place, "subtract_scaled", out.size(), subtract_scaled_kernel, x.data(), scale, y.data(), out.data(),
              out.size());
}

void scale(Place& place, float factor, View<float> values) {
  launch_over(place, "scale", values.size(), scale_kernel, factor, values.data(), values.size());
}

void scaled_difference(Place& place, float factor, View<const float> x, View<const float> y, View<float> out,
                       StatusView status) {
  launch_over(place, "scaled_difference", out.size(), scaled_difference_kernel, factor, x.data(), y.data(), out.data(),
              out.size(), status.data());
}

void subtract_difference(Place& place, View<const float> x, View<const float> y, View<float> out) {
  launch_over(place, "subtract_difference", out.size(), subtract_difference_kernel, x.data(), y.data(), out.data(),
              out.size());
}

void add_residual(Place& place, ConstGradientView values, View<const float> residual, View<float> out,
                  StatusView status) {
  with_numbers(values, [&]<class Number>(const Number* from) {
    launch_over(place, "add_residual", out.size(), add_residual_kernel<Number>, from, residual.data(), out.data(),
                out.size(), status.data());
  });
}

void add_step_to_error(Place& place, const Coefficients& coefficients, View<float> gradient,
                       const ErrorFeedback& memory, StatusView status) {
  const bool has_momentum = coefficients.momentum != 0.0F;
  const auto kernel = coefficients.weight_decay != 0.0F ? error_kernel_of<true>(has_momentum, coefficients.nesterov)
                                                        : error_kernel_of<false>(has_momentum, coefficients.nesterov);
  const ErrorMemory pointers{memory.model.data(), memory.error.data(), memory.next_error.data(),
                             memory.momentum.data()};
  launch_over(place, "add_step_to_error", gradient.size(), kernel, coefficients, gradient.data(), pointers,
              gradient.size(), status.data());
}

void follow_nesterov_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                          View<const float> momentum, View<float> model) {
  launch_over(place, "follow_step", model.size(), follow_kernel, coefficients.learning_rate, coefficients.momentum,
              gradient.data(), momentum.data(), model.data(), model.size());
}

}  // namespace laconic::cuda
