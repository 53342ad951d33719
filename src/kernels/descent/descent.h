#pragma once

#include "laconic/coefficients.h"
#include "laconic/gradient_view.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/view.h"

namespace laconic {

// The loops of optimizers, of momenta and of errors in parameter units. Every product, sum, quotient and root is
// rounded separately, so devices and vector units compute the same bits. Views of one call have equal sizes; an empty
// momentum means no momentum.

/// SGD: d = gradient + weight_decay·model; m = momentum·m + d; model −= learning_rate·m. With Nesterov's momentum,
/// d + momentum·m takes the place of m; without a momentum, d does.
void sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<float> momentum,
              View<float> model);

/// Adam's numbers in one step. 1 − β is computed in float64 and rounded once; in float32 its relative error would be
/// 1e-5.
struct AdamCoefficients {
  float learning_rate = 0.0F;
  float weight_decay = 0.0F;
  float beta1 = 0.0F;
  float beta2 = 0.0F;
  float fresh1 = 0.0F;       ///< 1 − β1
  float fresh2 = 0.0F;       ///< 1 − β2
  float correction1 = 0.0F;  ///< 1 − β1^steps
  float correction2 = 0.0F;  ///< 1 − β2^steps
  float epsilon = 0.0F;
  float shrink = 1.0F;  ///< factor of the model before it moves: decoupled weight decay, 1 − η·wd
};

/// Adam (Kingma, Ba 2015) with bias correction; weight_decay·model is added to the gradient. With decoupled weight decay
/// (AdamW; Loshchilov, Hutter 2019) weight_decay is 0 and `shrink` is below 1.
void adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient, View<float> first,
               View<float> second, View<float> model);

/// What a step reads or writes besides the gradient. `first` is SGD's momentum or Adam's first moment; moments that an
/// optimizer does not have are empty.
template <class Value>
struct StepMemory {
  View<Value> first;
  View<Value> second;
  View<Value> model;
};

/// The same steps, which leave what they read as it is, so that a step can still be dropped. `after` aliases nothing.
void try_sgd_step(Place& place, const Coefficients& coefficients, View<const float> gradient,
                  const StepMemory<const float>& before, const StepMemory<float>& after);
void try_adam_step(Place& place, const AdamCoefficients& coefficients, View<const float> gradient,
                   const StepMemory<const float>& before, const StepMemory<float>& after);

/// y = (1 − share)·y + share·x.
void blend(Place& place, float share, View<const float> x, View<float> y);

/// out = beta·before + (1 − beta)·gradient: a running mean of gradients. `out` may be `before`.
void running_mean(Place& place, float beta, View<const float> before, ConstGradientView gradient, View<float> out);

/// out = x − scale·y. `out` may be y.
void subtract_scaled(Place& place, View<const float> x, float scale, View<const float> y, View<float> out);

/// values *= factor.
void scale(Place& place, float factor, View<float> values);

/// out = factor·x − y. `out` may be x or y. Sets status.nonfinite if a difference is NaN or Inf.
void scaled_difference(Place& place, float factor, View<const float> x, View<const float> y, View<float> out,
                       StatusView status);

/// out −= x − y.
void subtract_difference(Place& place, View<const float> x, View<const float> y, View<float> out);

/// out = values + residual, where a residual of zero changes no bit of the value (−0 + 0 would be +0). `out` may be
/// either. Sets status.nonfinite if a sum is NaN or Inf.
void add_residual(Place& place, ConstGradientView values, View<const float> residual, View<float> out,
                  StatusView status);

/// The memory of error feedback in parameter units, for entries that have the same coefficients.
struct ErrorFeedback {
  View<const float> model;  ///< where the gradient was taken
  View<const float> error;
  View<float> next_error;
  View<float> momentum;  ///< empty without a momentum
};

/// next_error = learning_rate·d + error, where d is SGD's direction in this step; error is added as in add_residual.
/// The momentum is updated, and `gradient` receives the old momentum, so that a dropped step can be undone. Without a
/// momentum, `gradient` receives gradient + weight_decay·model. Sets status.nonfinite if next_error has NaN or Inf.
void add_step_to_error(Place& place, const Coefficients& coefficients, View<float> gradient, const ErrorFeedback& memory,
                       StatusView status);

/// model −= learning_rate·d with the same direction d, computed from what add_step_to_error left in `gradient` and
/// `momentum`.
void follow_step(Place& place, const Coefficients& coefficients, View<const float> gradient, View<const float> momentum,
                 View<float> model);

}  // namespace laconic
