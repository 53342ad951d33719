#pragma once

#include "problems/problem.h"

// One maker per problem; the table names them.

namespace laconic {

std::unique_ptr<Problem> make_linear_regression(const ProblemSettings& settings, int workers, std::uint64_t seed);
std::unique_ptr<Problem> make_logistic_toy(const ProblemSettings& settings, int workers, std::uint64_t seed);
std::unique_ptr<Problem> make_noisy_quadratic(const ProblemSettings& settings, int workers, std::uint64_t seed);
std::unique_ptr<Problem> make_logistic_regression(const ProblemSettings& settings, int workers, std::uint64_t seed);
std::unique_ptr<Problem> make_vincent(const ProblemSettings& settings, int workers, std::uint64_t seed);

}  // namespace laconic
