#pragma once

#include "kernels/descent/descent.h"

// The twins, on a place's stream; contracts as in descent.h.
namespace laconic::cuda {
void sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<float> momentum,
              View<float> model);
void adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient, View<float> first,
               View<float> second, View<float> model);
void try_sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                  const StepMemory<const float>& before, const StepMemory<float>& after);
void try_adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient,
                   const StepMemory<const float>& before, const StepMemory<float>& after);
void blend(Place& place, float share, View<const float> x, View<float> y);
void running_mean(Place& place, float beta, View<const float> before, ConstGradientView gradient, View<float> out);
void subtract_scaled(Place& place, View<const float> x, float scale, View<const float> y, View<float> out);
void scale(Place& place, float factor, View<float> values);
void scaled_difference(Place& place, float factor, View<const float> x, View<const float> y, View<float> out,
                       StatusView status);
void subtract_difference(Place& place, View<const float> x, View<const float> y, View<float> out);
void add_residual(Place& place, ConstGradientView values, View<const float> residual, View<float> out,
                  StatusView status);
void add_step_to_error(Place& place, const Coefficients& coefficients, View<float> gradient,
                       const ErrorFeedback& memory, StatusView status);
/// With Nesterov's momentum; otherwise the step is an axpy.
void follow_nesterov_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                          View<const float> momentum, View<float> model);
}  // namespace laconic::cuda
