#include <pybind11/functional.h>

#include <optional>

#include "laconic/error.h"
#include "torch/plugin/model_host.h"
#include "torch/plugin/reducing_host.h"
#include "torch/python/costs.h"
#include "torch/python/given.h"

namespace laconic::python {
namespace {

using plugin::OptimizerHost;
using CoefficientTuple = std::tuple<float, float, float, bool>;  // learning rate, momentum, weight decay, nesterov

/// What Python tells of a model.
struct GivenModel {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  std::vector<std::string> frozen_names;
  std::vector<at::Tensor> frozen;
  std::vector<at::Tensor> start;  ///< what all ranks shall begin with alike
};

plugin::ParameterSet parameters_of(GivenModel model) {
  plugin::ParameterSet set(std::move(model.names), std::move(model.parameters));
  set.set_frozen(std::move(model.frozen_names), std::move(model.frozen));
  set.set_start(std::move(model.start));
  return set;
}

plugin::Workplace workplace_of(const plugin::ParameterSet& set, int threads) {
  return plugin::workplace_for(set.parameters(), threads, plugin::WorkStream::torch_default);
}

std::shared_ptr<OptimizerHost> reducing_host(std::shared_ptr<Communicator> communicator, int threads, GivenModel model,
                                             const std::vector<GroupTuple>& groups, std::uint64_t seed,
                                             std::uint32_t warmup, bool skips) {
  plugin::MethodSetOptions options;
  options.seed = seed;
  options.warmup = warmup;
  options.policy = policy_of(skips);
  plugin::ParameterSet set = parameters_of(std::move(model));
  plugin::Workplace work = workplace_of(set, threads);
  auto host = std::make_unique<plugin::ReducingHost>(std::move(communicator), std::move(work), std::move(set),
                                                     groups_of(groups), options);
  return {host.release(), EndHost<OptimizerHost>()};
}

std::shared_ptr<OptimizerHost> model_host(std::shared_ptr<Communicator> communicator, int threads, GivenModel model,
                                          const std::pair<std::string, Texts>& method,
                                          std::vector<std::uint32_t> group_of_parameter, std::uint64_t seed, bool skips,
                                          plugin::HostCalls calls) {
  plugin::ParameterSet set = parameters_of(std::move(model));
  plugin::Workplace work = workplace_of(set, threads);
  auto host = std::make_unique<plugin::ModelHost>(std::move(communicator), std::move(work), seed, std::move(set),
                                                  method.first, options_of(method.first, method.second),
                                                  std::move(calls), policy_of(skips));
  host->set_groups(std::move(group_of_parameter));
  return {host.release(), EndHost<OptimizerHost>()};
}

bool step(OptimizerHost& host, const std::vector<CoefficientTuple>& groups, const std::vector<float>& shrink, float loss,
          float factor, bool skips, std::optional<at::Tensor> scaling) {
  std::vector<Coefficients> coefficients;
  for (const auto& [rate, momentum, decay, nesterov] : groups)
    coefficients.push_back({rate, momentum, decay, nesterov});
  return host.step({.loss = loss,
                    .factor = factor,
                    .skips = skips,
                    .scaling = scaling.value_or(at::Tensor()),
                    .groups = coefficients,
                    .shrink = shrink});
}

void agree(OptimizerHost& host, const Texts& texts) {
  std::vector<AgreedField> fields;
  for (const auto& [name, value] : texts) fields.push_back({name, value});
  host.agree(fields);
}

at::Tensor save(OptimizerHost& host) { return tensor_of(host.save()); }

void load(OptimizerHost& host, const at::Tensor& saved, std::string refusal) {
  State state;
  try {
    if (refusal.empty()) state = state_of(saved);
  } catch (const Error& error) {
    refusal = error.what();
  }
  host.load(state, std::move(refusal));
}

void redeal(OptimizerHost& host, const std::vector<at::Tensor>& saved, std::string refusal) {
  std::vector<State> states;
  try {
    for (const at::Tensor& each : saved) states.push_back(state_of(each));
  } catch (const Error& error) {
    refusal = error.what();
  }
  host.redeal(states, std::move(refusal));
}

py::dict described(const plugin::StepCosts& costs) {
  py::dict entry = costs_of(costs.traffic, costs.dense_bytes, costs.select_seconds);
  entry["copy_seconds"] = costs.copy_seconds;
  entry["optimizer_seconds"] = costs.host_seconds;
  entry["step_seconds"] = costs.step_seconds;
  return entry;
}

py::dict metrics_of(OptimizerHost& host) {
  const plugin::OptimizerMetrics metrics = unlocked([&] { return host.metrics(); });
  py::dict entry = metrics_entry(metrics, described);
  entry["rounds"] = metrics.rounds;
  entry["bits"] = metrics.bits;
  entry["extra"] = metrics.extra;
  return entry;
}

}  // namespace

void bind_optimizer(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<OptimizerHost, std::shared_ptr<OptimizerHost>>(module, "OptimizerHost",
                                                            "What laconic.Optimizer stands on.")
      .def("follow", &OptimizerHost::follow, py::arg("parameters"), py::arg("trained"), Unlocked(),
           "The parameters as they are now, if they are parts of other tensors.")
      .def("step", &step, py::arg("groups"), py::arg("shrink"), py::arg("loss"), py::arg("factor"), py::arg("skips"),
           py::arg("scaling"), Unlocked())
      .def_property_readonly("finished", &OptimizerHost::finished)
      .def_property_readonly("reads_out", &OptimizerHost::reads_out)
      .def_property_readonly("rank", &OptimizerHost::rank)
      .def_property_readonly("ranks", &OptimizerHost::ranks)
      .def_property_readonly("reason_for_cpu", &OptimizerHost::reason_for_cpu)
      .def("close", [](const OptimizerHost& self) { self.require_own_process("close()"); })
      .def("agree", &agree, py::arg("fields"), Unlocked())
      .def("broadcast", &OptimizerHost::broadcast, py::arg("tensors"), Unlocked())
      .def("average", &OptimizerHost::average, py::arg("tensors"), Unlocked())
      .def("enter_read_out", &OptimizerHost::enter_read_out, Unlocked())
      .def("leave_read_out", &OptimizerHost::leave_read_out, Unlocked())
      .def("fail", &OptimizerHost::fail, py::arg("reason"), Unlocked())
      .def("save", &save, Unlocked())
      .def("load", &load, py::arg("saved"), py::arg("refusal") = "", Unlocked())
      .def("redeal", &redeal, py::arg("saved"), py::arg("refusal") = "", Unlocked())
      .def("metrics", &metrics_of);
  py::class_<GivenModel>(module, "GivenModel")
      .def(py::init([](std::vector<std::string> names, std::vector<at::Tensor> parameters,
                       std::vector<std::string> frozen_names, std::vector<at::Tensor> frozen,
                       std::vector<at::Tensor> start) {
             return GivenModel{std::move(names), std::move(parameters), std::move(frozen_names), std::move(frozen),
                               std::move(start)};
           }),
           py::arg("names"), py::arg("parameters"), py::arg("frozen_names"), py::arg("frozen"), py::arg("start"));
  py::class_<plugin::HostCalls>(module, "HostCalls")
      .def(py::init([](std::function<void()> optimizer, std::function<void(std::uint32_t)> scoring,
                       std::function<void()> after_round) {
             return plugin::HostCalls{std::move(optimizer), std::move(scoring), std::move(after_round)};
           }),
           py::arg("optimizer"), py::arg("scoring"), py::arg("after_round"));
  module.def("reducing_host", &reducing_host, py::arg("communicator"), py::arg("threads"), py::arg("model"),
             py::arg("groups"), py::arg("seed"), py::arg("warmup"), py::arg("skips"), Unlocked());
  module.def("model_host", &model_host, py::arg("communicator"), py::arg("threads"), py::arg("model"),
             py::arg("method"), py::arg("group_of_parameter"), py::arg("seed"), py::arg("skips"), py::arg("calls"),
             Unlocked());
}

}  // namespace laconic::python
