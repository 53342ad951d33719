#pragma once

#include <memory>
#include <string>

#include "experiment/run.h"

namespace laconic::tools {

/// What the configuration names: a problem, or a network on a task, whose data lie in `data_folder`. InvalidConfig for
/// a task in a program that was built without PyTorch.
std::unique_ptr<Workload> make_workload(const RunConfig& config, const std::string& data_folder);

/// The configuration with what it left open: the task's model, and what the method asks of the run.
RunConfig completed(RunConfig config, const Workload& workload);

/// What the user should know of the data, if anything, to stderr.
void tell_note(const Workload& workload);

/// "linear-regression", or "digits with cnn".
std::string subject_of(const RunConfig& config);

/// "digits with cnn, 4 workers, 500 steps, seed 1", or "digits with cnn on cuda, …".
std::string setting_of(const RunConfig& config);

}  // namespace laconic::tools
