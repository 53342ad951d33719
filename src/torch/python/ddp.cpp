#include <torch/csrc/jit/python/pybind_utils.h>

#include <mutex>

#include "laconic/error.h"
#include "torch/plugin/ddp_hook.h"
#include "torch/plugin/tensors.h"
#include "torch/python/costs.h"
#include "torch/python/given.h"

namespace laconic::python {
namespace {

using plugin::DdpHost;

/// Those that are alive, so that they can be ended before the interpreter is: their threads need its lock to end while
/// a step is open.
class LivingHosts {
 public:
  void add(const std::shared_ptr<DdpHost>& host) {
    const std::lock_guard lock(mutex_);
    std::erase_if(hosts_, [](const auto& each) { return each.expired(); });
    hosts_.push_back(host);
  }

  void close() {
    if (!process_.is_this()) return;
    std::vector<std::weak_ptr<DdpHost>> hosts;
    {
      const std::lock_guard lock(mutex_);
      hosts.swap(hosts_);
    }
    for (const auto& each : hosts) {
      if (const auto host = each.lock()) host->gradients().close();
    }
  }

 private:
  plugin::OwnProcess process_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<DdpHost>> hosts_;
};

LivingHosts& living_hosts() {
  static LivingHosts hosts;
  return hosts;
}

std::shared_ptr<DdpHost> make_host(std::shared_ptr<Communicator> communicator, int threads,
                                   std::vector<std::string> names, std::vector<at::Tensor> parameters,
                                   std::optional<at::Tensor> scale, const std::vector<GroupTuple>& groups,
                                   const plugin::MethodSetOptions& options) {
  plugin::DdpModel model{std::move(names), std::move(parameters), scale.value_or(at::Tensor())};
  py::gil_scoped_release unlocked;
  const std::shared_ptr<DdpHost> host(
      new DdpHost(std::move(communicator), threads, std::move(model), groups_of(groups), options), EndHost<DdpHost>());
  living_hosts().add(host);
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

py::dict described(const plugin::SetMetrics& metrics) {
  py::dict entry = costs_of(metrics.traffic, metrics.dense_bytes, metrics.select_seconds);
  entry["inside_sent_bytes"] = metrics.within.sent_bytes;
  entry["inside_received_bytes"] = metrics.within.received_bytes;
  entry["bits"] = metrics.bits;
  entry["wait_seconds"] = metrics.wait_seconds;
  return entry;
}

py::dict metrics_of(DdpHost& host) {
  const plugin::HostMetrics metrics = unlocked([&] { return host.gradients().metrics(); });
  py::dict entry = metrics_entry(metrics, described);
  entry["convert_seconds"] = metrics.convert_seconds;
  entry["busy_seconds"] = metrics.busy_seconds;
  entry["method_seconds"] = metrics.method_seconds;
  return entry;
}

at::Tensor save(DdpHost& host) { return tensor_of(host.gradients().save()); }

void load(DdpHost& host, const at::Tensor& saved, std::string refusal) {
  at::Tensor bytes;
  View<const std::byte> view;
  try {
    bytes = plugin::bytes_on_host(saved, "saved state");
    view = plugin::byte_view(bytes, "saved state");
  } catch (const Error& error) {
    if (refusal.empty()) refusal = error.what();
  }
  host.gradients().load(view, refusal);
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
      .def("metrics", &metrics_of)
      .def_property_readonly("reason_for_cpu", &DdpHost::reason_for_cpu)
      .def("save", &save, py::call_guard<py::gil_scoped_release>())
      .def("load", &load, py::arg("saved"), py::arg("refusal") = "", py::call_guard<py::gil_scoped_release>());
}

}  // namespace laconic::python
