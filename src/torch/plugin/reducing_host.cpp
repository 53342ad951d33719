#include "torch/plugin/reducing_host.h"

#include "exchange/exchange.h"

namespace laconic::plugin {

ReducingHost::ReducingHost(std::shared_ptr<Communicator> communicator, int threads, ParameterSet the_parameters,
                           std::vector<MethodGroup> groups, const MethodSetOptions& options)
    : OptimizerHost(std::move(communicator), threads, options.seed, std::move(the_parameters)),
      methods_(parameters().tensors(), std::move(groups), options, this->communicator(), place()) {}

StepReport ReducingHost::do_step(const HostStepInput& input) {
  std::span<const TensorPart> parts;
  {
    const Stopwatch watch(costs().copy_seconds);
    parts = parameters().open_gradients(place(), input.factor);
  }
  methods_.begin();
  methods_.add(parts);
  const bool counts = methods_.finish(!input.skips);
  {
    const Stopwatch watch(costs().copy_seconds);
    parameters().close_gradients();
  }
  ++counted().rounds;
  const SetMetrics& last = methods_.last();
  return {.skipped = !counts, .traffic = last.traffic, .select_seconds = last.select_seconds, .bits = last.bits};
}

}  // namespace laconic::plugin
