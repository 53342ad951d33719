#pragma once

#include "problems/problem.h"

namespace laconic {

/// f_n(x) = ½ Σ_i h_i (x_i − c_n,i)²; a step's gradient is h_i (x_i − c_n,i) + σ_i·N(0, 1), drawn by (seed, step,
/// worker, coordinate). The workers' optima c_n have the mean 0, so the optimum is 0 up to their float32 rounding.
struct Quadratic {
  std::vector<float> curvature;             ///< h
  std::vector<float> noise;                 ///< σ, a standard deviation per coordinate
  std::vector<float> start;                 ///< x_0
  std::vector<std::vector<float>> offsets;  ///< c_n by worker; empty: all zero
  std::vector<Tensor> tensors;              ///< empty: one tensor
};

/// For a curvature, noise, start or offsets that the settings of noisy-quadratic cannot express. Throws InvalidConfig
/// if sizes differ.
std::unique_ptr<Problem> make_quadratic(Quadratic quadratic, int workers, std::uint64_t seed);

}  // namespace laconic
