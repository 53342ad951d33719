#include <torch/csrc/utils/pybind.h>

#include "torch/plugin/fsdp_host.h"
#include "torch/python/gradient_bindings.h"

namespace laconic::python {
namespace {

using plugin::FsdpHost;
using Pieces = std::vector<std::pair<std::uint32_t, std::int64_t>>;

std::shared_ptr<FsdpHost> make_host(std::shared_ptr<Communicator> communicator, std::shared_ptr<Communicator> shards,
                                    int threads, std::vector<std::string> names, std::vector<std::uint64_t> sizes,
                                    const at::Device& device, const std::vector<GroupTuple>& groups,
                                    const plugin::MethodSetOptions& options) {
  plugin::ShardedModel model{std::move(names), std::move(sizes), device};
  plugin::MethodSetOptions chosen = options;
  chosen.drops_unused = chosen.used_alike = true;  // fully_shard leaves out what a backward did not reach, on all ranks
  py::gil_scoped_release unlocked;
  const std::shared_ptr<FsdpHost> host(
      new FsdpHost(std::move(communicator), std::move(shards), threads, std::move(model), groups_of(groups), chosen),
      EndHost<FsdpHost>());
  living_hosts().add({host, &host->gradients()});
  return host;
}

void submit(FsdpHost& host, const at::Tensor& flat, const Pieces& given, double factor, double divisor) {
  std::vector<plugin::FlatSlice> pieces;
  for (const auto& [parameter, offset] : given) pieces.push_back({parameter, offset});
  host.submit(flat, pieces, {.factor = factor, .divisor = divisor});
}

void finish(FsdpHost& host, const std::vector<std::optional<at::Tensor>>& given) {
  std::vector<at::Tensor> gradients;
  for (const auto& each : given) gradients.push_back(each.value_or(at::Tensor()));
  host.finish(gradients);
}

py::dict metrics(FsdpHost& host) {
  const plugin::HostMetrics figures = unlocked([&] { return host.gradients().metrics(); });
  py::dict entry = metrics_of(figures);
  entry["last"]["early_entries"] = figures.last.early_entries;
  entry["total"]["early_entries"] = figures.total.early_entries;
  for (const auto& [when, sent] : {std::pair{"last", host.inside().last}, {"total", host.inside().total}}) {
    entry[when]["inside_sent_bytes"] = sent;
    entry[when].attr("pop")("inside_received_bytes");  // fully_shard receives it, unseen by us
  }
  return entry;
}

}  // namespace

void bind_fsdp(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<FsdpHost, std::shared_ptr<FsdpHost>>(module, "FsdpHost", "What laconic.ShardedState stands on.")
      .def(py::init(&make_host), py::arg("communicator"), py::arg("shards"), py::arg("threads"), py::arg("names"),
           py::arg("sizes"), py::arg("device"), py::arg("groups"), py::arg("options"))
      .def("submit", &submit, py::arg("flat"), py::arg("pieces"), py::arg("factor"), py::arg("divisor"), Unlocked(),
           "Takes gradients of a step, where they begin in the flat tensor, and leaves zeros.")
      .def("finish", &finish, py::arg("gradients"), Unlocked(), "Adds the aggregate to the gradients.")
      .def("abandon", &FsdpHost::abandon, Unlocked(), "Drops the step on all ranks.")
      .def_property_readonly("in_step", &FsdpHost::in_step)
      .def_property_readonly("reached", &FsdpHost::reached)
      .def(
          "close", [](FsdpHost& self) { self.gradients().close(); }, Unlocked(), "Ends its thread and its groups.")
      .def("metrics", &metrics)
      .def_property_readonly("reason_for_cpu", &FsdpHost::reason_for_cpu)
      .def(
          "save", [](FsdpHost& self) { return saved_tensor(self.gradients()); }, Unlocked())
      .def(
          "load",
          [](FsdpHost& self, const at::Tensor& saved, std::string refusal) {
            load_tensor(self.gradients(), saved, std::move(refusal));
          },
          py::arg("saved"), py::arg("refusal") = "", Unlocked());
}

}  // namespace laconic::python
