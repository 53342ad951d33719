#pragma once

#include <string>
#include <vector>

#include "laconic/methods.h"
#include "methods/table.h"

namespace laconic::test {

/// The tensors of the test model: sizes that are no multiple of anything.
std::vector<Tensor> small_model();
std::uint64_t size_of(const std::vector<Tensor>& tensors);

/// Whether a method sends everything as it is unless `keep` or `values` ask for less.
bool sends_all(const MethodRow& row);

/// Options under which a method of the table does all that it can on a small model.
MethodOptions small_options(const MethodRow& row);

/// Gradient of a rank at a step: small integers, whose sums are exact.
std::vector<float> integer_gradient(std::uint64_t n, int rank, std::uint32_t step);
/// Gradient at a point: pulls to a rank's own target, with noise; for runs in which the model matters.
std::vector<float> pull_gradient(const std::vector<float>& model, int rank, std::uint32_t step);

/// A model method of the table with its tensors registered, ready to step; and what it needs to live.
struct Worker {
  Worker(const MethodRow& row, const MethodOptions& options, Communicator& communicator,
         OptimizerOptions optimizer = {});

  /// One step of pull_gradient; all further state is in `model` and the method.
  StepReport step(std::uint32_t number);
  std::vector<float> read_out();

  Communicator& communicator;
  Place place;
  std::vector<float> model;
  std::unique_ptr<ModelMethod> method;
};

/// Every rank's values, by rank. Collective.
std::vector<std::vector<float>> all_ranks(Communicator& communicator, const std::vector<float>& values);

/// The key of a rank's step: all tests have one seed.
StepKey key_of(const Communicator& communicator, std::uint32_t step);

/// A memory of a method by its name in the saved state.
std::vector<float> saved(const Method& method, const std::string& name);

/// The largest difference of an entry from what a float64 model expects.
double distance(const std::vector<float>& values, const std::vector<double>& expected);

/// True if all ranks hold the same bits.
bool same_everywhere(Communicator& communicator, const std::vector<float>& values);

/// Sum over ranks in float64, exact for small integers.
std::vector<double> sum_everywhere(Communicator& communicator, const std::vector<float>& values);

}  // namespace laconic::test
