#pragma once

#include <cstdint>
#include <functional>

#include "laconic/view.h"

// Figures of a symmetric matrix that is known by its products alone.

namespace laconic {

/// Writes matrix·vector into `product`.
using MatrixProduct = std::function<void(View<const float> vector, View<float> product)>;

struct Estimate {
  double value = 0.0;
  double standard_error = 0.0;  ///< of the value; NaN where there was one try alone
};

/// Mean of z·Mz over `probes` vectors of random signs (Hutchinson 1990): unbiased; the sum of the eigenvalues. A
/// product a probe.
Estimate trace_estimate(const MatrixProduct& matrix, std::size_t size, int probes, std::uint64_t seed);

struct LanczosOptions {
  int starts = 3;           ///< searches, each from a random vector of its own
  int steps = 40;           ///< products of a search at most
  double tolerance = 1e-2;  ///< a search ends when an eigenvalue lies within so much of its value, relative to it
};

struct LargestEigenvalue {
  Estimate estimate;  ///< mean of the searches, and its error by how they differ
  int unsettled = 0;  ///< searches that used up their steps: their values are too small
};

/// Algebraically the largest one (Lanczos 1950). Without orthogonalising anew: rounding then repeats eigenvalues that
/// have been found, and moves none, so three vectors are all the memory it takes.
LargestEigenvalue largest_eigenvalue(const MatrixProduct& matrix, std::size_t size, const LanczosOptions& options,
                                     std::uint64_t seed);

}  // namespace laconic
