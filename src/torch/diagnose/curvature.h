#pragma once

#include <cstdint>
#include <functional>

#include "laconic/view.h"

// Figures of a symmetric matrix that is given only by its products with vectors.

namespace laconic {

/// Writes matrix·vector into `product`.
using MatrixProduct = std::function<void(View<const float> vector, View<float> product)>;

struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;  ///< of the value; NaN if there was only one sample
};

/// An unbiased estimate of the trace, the sum of the eigenvalues: the mean of z·Mz over `probes` vectors of random
/// signs (Hutchinson 1990). Costs one product per probe.
Estimate trace_estimate(const MatrixProduct& matrix, std::size_t size, int probes, std::uint64_t seed);

struct LanczosOptions {
  int starts = 3;           ///< number of searches, each from its own random vector
  int steps = 40;           ///< most products per search
  double tolerance = 1e-2;  ///< a search ends when an eigenvalue lies within this relative distance of its value
};

struct LargestEigenvalue {
  Estimate estimate;  ///< mean of the searches; its error is estimated from their differences
  int unsettled = 0;  ///< searches that did not converge; their values are too small
};

/// The algebraically largest eigenvalue (Lanczos 1950), without reorthogonalisation. Rounding then repeats eigenvalues
/// that have been found, but does not shift any, so three vectors of memory are enough.
LargestEigenvalue largest_eigenvalue(const MatrixProduct& matrix, std::size_t size, const LanczosOptions& options,
                                     std::uint64_t seed);

}  // namespace laconic
