#pragma once

#include "bench/harness.h"

namespace laconic::bench {

// The cases by group; kernel_table() puts them in order.

std::vector<KernelEntry> topk_cases();
std::vector<KernelEntry> sign_cases();
std::vector<KernelEntry> quantize_cases();
std::vector<KernelEntry> value_cases();

/// Makes a Case of a type that has prepare(), run(place), stream(pool) and results(); and, where LACONIC_TORCH,
/// optionally torch() and torch_wrong().
template <class Job>
Case case_of(std::shared_ptr<Job> job) {
  Case made;
  made.prepare = [job = job.get()] { job->prepare(); };
  made.run = [job = job.get()](Place& place) { job->run(place); };
  made.stream = [job = job.get()](ThreadPool& pool) { job->stream(pool); };
  made.results = job->results();
#if LACONIC_TORCH
  if constexpr (requires { job->torch(); }) {
    made.torch = [job = job.get()] { job->torch(); };
    made.torch_wrong = [job = job.get()] { return job->torch_wrong(); };
  }
#endif
  made.owner = std::move(job);
  return made;
}

template <class Job>
Case make_case(const Inputs& inputs) {
  return case_of(std::make_shared<Job>(inputs));
}

}  // namespace laconic::bench
