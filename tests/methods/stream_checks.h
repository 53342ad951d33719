#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "methods/harness.h"

namespace laconic::test {

// A step whose tensors arrive one after another, checked by every rank of a communicator: over threads and over MPI.

/// More tensors than exchanges that can be in flight, one of them empty.
std::vector<Tensor> streamed_model();

/// A row with options, and what streams() must say of it.
struct StreamedRow {
  const MethodRow* row;
  MethodOptions options;
  bool streams;
  std::string name;
};
inline void PrintTo(const StreamedRow& row, std::ostream* out) { *out << row.name; }
/// Every row, those with a scope in both of its forms.
std::vector<StreamedRow> streamed_rows();

/// How a worker hands over its gradient.
enum class Arrival { flat, forward, backward_apart, at_random };

/// A worker of `streamed_model` with chunks of so many entries.
struct StreamedWorker {
  StreamedWorker(const StreamedRow& row, Communicator& communicator, std::uint64_t chunk_entries);

  std::vector<float> gradient(std::uint32_t step) const;
  StepInput input(std::uint32_t step) const;
  StepReport step(std::uint32_t step, std::vector<float> gradient, Arrival arrival);

  Communicator& communicator;
  Place place;
  std::vector<float> model;
  std::unique_ptr<ModelMethod> method;
  std::vector<std::vector<float>> apart;  ///< a vector a tensor
};

/// The same bits and the same traffic whatever the arrival, other ones on other ranks; the bits of one chunk.
void check_arrivals(Communicator& communicator, const StreamedRow& row);
/// Cut between steps and resumed with another arrival, with chunks of the same size and of others.
void check_streamed_resume(Communicator& communicator, const StreamedRow& row);
/// The chunks that have arrived are exchanged on all ranks before the last tensor is added.
void check_early_exchange(Communicator& communicator, const StreamedRow& row);
/// A NaN in one rank's tensors: all ranks name rank, the first such tensor and the step, or skip the step and forget
/// it.
void check_streamed_nonfinite(Communicator& communicator, const StreamedRow& row);

}  // namespace laconic::test
