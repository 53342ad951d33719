#include <torch/csrc/jit/python/pybind_utils.h>

#include "torch/plugin/ddp_hook.h"
#include "torch/python/gradient_bindings.h"

namespace laconic::python {
namespace {

using plugin::DdpHost;

std::shared_ptr<DdpHost> make_host(std::shared_ptr<Communicator> communicator, int threads,
                                   std::vector<std::string> names, std::vector<at::Tensor> parameters,
                                   std::optional<at::Tensor> scale, const std::vector<GroupTuple>& groups,
                                   const plugin::MethodSetOptions& options) {
  plugin::DdpModel model{std::move(names), std::move(parameters), scale.value_or(at::Tensor())};
  py::gil_scoped_release unlocked;
  const std::shared_ptr<DdpHost> host(
      new DdpHost(std::move(communicator), threads, std::move(model), groups_of(groups), options), EndHost<DdpHost>());
  living_hosts().add({host, &host->gradients()});
  return host;
}

plugin::MethodSetOptions set_options(std::uint64_t seed, std::uint32_t warmup, bool skip, bool drops_unused,
                                     std::uint64_t chunk_entries, double clip) {
  return {.seed = seed,
          .warmup = warmup,
          .policy = policy_of(skip),
          .drops_unused = drops_unused,
          .chunk_entries = chunk_entries,
          .clip = clip};
}

/// What arranges a reducer's buckets later and does not keep the host alive until then.
class Arranging {
 public:
  explicit Arranging(const std::shared_ptr<DdpHost>& host) : host_(host) {}

  /// Nothing, if the host has ended.
  void arrange(c10d::Reducer& reducer, std::size_t bytes) const {
    if (const auto host = host_.lock()) host->arrange(reducer, bytes);
  }

 private:
  std::weak_ptr<DdpHost> host_;
};

/// The conventional hook's future: it holds the bucket's tensor as Python sees it, made here, where the interpreter's
/// lock is held, so that completing it needs no lock.
std::shared_ptr<torch::jit::PythonFutureWrapper> submit(DdpHost& host, c10d::GradBucket& bucket) {
  const py::object buffer = py::cast(bucket.getBuffer());
  return std::make_shared<torch::jit::PythonFutureWrapper>(
      host.submit(bucket, torch::jit::toIValue(buffer, c10::PyObjectType::get()), c10::PyObjectType::get()));
}

}  // namespace

void bind_ddp(py::module_& module) {
  module.def(
      "close_hooks", [] { living_hosts().close(); }, py::call_guard<py::gil_scoped_release>(),
      "Ends the hooks' threads. Called when the interpreter ends.");
  py::module_::import("atexit").attr("register")(module.attr("close_hooks"));
  py::class_<plugin::MethodSetOptions>(module, "HookOptions")
      .def(py::init(&set_options), py::kw_only(), py::arg("seed"), py::arg("warmup"), py::arg("skip"),
           py::arg("drops_unused"), py::arg("chunk_entries"), py::arg("clip"))
      .def_readwrite("hosts", &plugin::MethodSetOptions::hosts);
  py::class_<Arranging>(module, "Arranging")
      .def("arrange", &Arranging::arrange, py::arg("reducer"), py::arg("bytes"),
           "Fills the reducer's buckets anew, so that nothing need be copied. Between steps.");
  py::class_<DdpHost, std::shared_ptr<DdpHost>>(module, "DdpHost", "What laconic.State and laconic.attach stand on.")
      .def(py::init(&make_host), py::arg("communicator"), py::arg("threads"), py::arg("names"), py::arg("parameters"),
           py::arg("scale"), py::arg("groups"), py::arg("options"))
      .def(
          "register_on",
          [](const std::shared_ptr<DdpHost>& self, c10d::Reducer& reducer) {
            reducer.register_comm_hook(std::make_unique<plugin::DdpHook>(self));
          },
          py::arg("reducer"), "Makes this the reducer's hook, without Python in the step.")
      .def(
          "arranging", [](const std::shared_ptr<DdpHost>& self) { return Arranging(self); },
          "What fills a reducer's buckets, and does not keep this alive.")
      .def("submit", &submit, py::arg("bucket"), "Queues a bucket; a future of its tensor.")
      .def(
          "close", [](DdpHost& self) { self.gradients().close(); }, py::call_guard<py::gil_scoped_release>(),
          "Ends its thread and its groups.")
      .def("metrics", [](DdpHost& self) { return metrics_of(self.gradients()); })
      .def_property_readonly("reason_for_cpu", &DdpHost::reason_for_cpu)
      .def(
          "save", [](DdpHost& self) { return saved_tensor(self.gradients()); },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "load",
          [](DdpHost& self, const at::Tensor& saved, std::string refusal) {
            load_tensor(self.gradients(), saved, std::move(refusal));
          },
          py::arg("saved"), py::arg("refusal") = "", py::call_guard<py::gil_scoped_release>());
}

}  // namespace laconic::python
