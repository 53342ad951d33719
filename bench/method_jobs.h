#pragma once

#include <memory>
#include <vector>

#include "laconic/key.h"
#include "laconic/methods.h"

namespace laconic::bench {

inline constexpr float kMethodLearningRate = 0.01F;

/// One rank's step, either through the method or by its parts: the gradient, and the model where the method has one,
/// end as the method says.
class StepJob {
 public:
  virtual ~StepJob() = default;
  virtual void step(StepKey key, View<float> model, View<float> gradient) = 0;
};

struct JobSetting {
  const std::vector<Tensor>& tensors;
  std::uint64_t n;
  View<float> start;  ///< the model of the job's side
};

struct MethodEntry {
  const char* name;    ///< of the row in the table of methods
  const char* bare;    ///< what the bare side calls
  bool changes_model;  ///< the result is the model, else the gradient
  MethodOptions options;
  OptimizerOptions optimizer;
  std::unique_ptr<StepJob> (*make_bare)(const JobSetting&, const MethodEntry&, Communicator&, Place&);
};

/// The bare side of compressed updates that send everything, or the largest entries (update_jobs.cpp).
std::unique_ptr<StepJob> make_dense_update(const JobSetting& setting, const MethodEntry& entry,
                                           Communicator& communicator, Place& place);
std::unique_ptr<StepJob> make_largest_update(const JobSetting& setting, const MethodEntry& entry,
                                             Communicator& communicator, Place& place);

/// All methods that can be measured, in the order of the table.
const std::vector<MethodEntry>& method_entries();

/// The method itself, its tensors registered and, where it has a model, started.
std::unique_ptr<StepJob> make_whole(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator,
                                    Place& place);

/// Thirty-two weights, each followed by a bias of 256; one tensor where that does not fit.
std::vector<Tensor> bench_tensors(std::uint64_t n);

}  // namespace laconic::bench
