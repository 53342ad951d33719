#include "torch/plugin/reducing_host.h"

#include "exchange/exchange.h"
#include "torch/plugin/redeal.h"
#include "torch/plugin/saved_state.h"

namespace laconic::plugin {

ReducingHost::ReducingHost(std::shared_ptr<Communicator> communicator, Workplace work, ParameterSet the_parameters,
                           std::vector<MethodGroup> groups, const MethodSetOptions& options)
    : OptimizerHost(std::move(communicator), std::move(work), options.seed, std::move(the_parameters)),
      takes_16bit_(options.takes_16bit()),
      groups_(groups),
      methods_(parameters().tensors(), std::move(groups), options, this->communicator(), place()) {
  this->communicator().barrier().wait();
}

StepReport ReducingHost::do_step(const HostStepInput& input) {
  std::span<const TensorPart> parts;
  {
    const Stopwatch watch(costs().copy_seconds);
    parts = parameters().open_gradients(place(), input.factor, input.scaling, takes_16bit_);
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
  return {.skipped = !counts,
          .traffic = last.traffic,
          .within = last.within,
          .select_seconds = last.select_seconds,
          .bits = last.bits};
}

/// Group by group, each a method of its own.
OptimizerHost::Change ReducingHost::prepare_redeal(const std::vector<State>& saved) {
  const State first = saved.front().nested("methods");
  State dealt;
  dealt.put("rank", static_cast<double>(rank()));
  dealt.put("ranks", static_cast<double>(ranks()));
  for (const char* name : {"seed", "step", "skipped"}) dealt.put(name, first.number(name));
  put_tensors(dealt, parameters().tensors());  // those that require_fitting has compared
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::string name = "group " + std::to_string(i);
    std::vector<State> states;
    for (const State& each : saved) states.push_back(each.nested("methods").nested(name));
    std::vector<Tensor> members;
    for (const std::uint32_t each : groups_[i].parameters) members.push_back(parameters().tensors()[each]);
    const MethodMaker make = [&](Communicator& communicator, Place& place) {
      return make_method(groups_[i].method, groups_[i].options, communicator, place);
    };
    dealt.put(name, View<const std::uint32_t>(groups_[i].parameters));
    dealt.put(name, redealt(states, rank(), ranks(), members, make));
  }
  return prepare(dealt);
}

OptimizerHost::Change ReducingHost::prepare(const State& methods) {
  methods_.require_loadable(methods);
  return [this, methods] { methods_.take(methods); };
}

}  // namespace laconic::plugin
