#include "torch/python/gradient_bindings.h"

#include "laconic/error.h"
#include "torch/plugin/tensors.h"

namespace laconic::python {
namespace {

py::dict described(const plugin::SetMetrics& metrics) {
  py::dict entry = costs_of(metrics.traffic, metrics.dense_bytes, metrics.select_seconds);
  entry["inside_sent_bytes"] = metrics.within.sent_bytes;
  entry["inside_received_bytes"] = metrics.within.received_bytes;
  entry["bits"] = metrics.bits;
  entry["wait_seconds"] = metrics.wait_seconds;
  return entry;
}

}  // namespace

void LivingHosts::add(const std::shared_ptr<plugin::GradientHost>& host) {
  const std::lock_guard lock(mutex_);
  std::erase_if(hosts_, [](const auto& each) { return each.expired(); });
  hosts_.push_back(host);
}

void LivingHosts::close() {
  if (!process_.is_this()) return;
  std::vector<std::weak_ptr<plugin::GradientHost>> hosts;
  {
    const std::lock_guard lock(mutex_);
    hosts.swap(hosts_);
  }
  for (const auto& each : hosts) {
    if (const auto host = each.lock()) host->close();
  }
}

LivingHosts& living_hosts() {
  static LivingHosts hosts;
  return hosts;
}

py::dict metrics_of(const plugin::HostMetrics& metrics) {
  py::dict entry = metrics_entry(metrics, described);
  entry["convert_seconds"] = metrics.convert_seconds;
  entry["busy_seconds"] = metrics.busy_seconds;
  entry["method_seconds"] = metrics.method_seconds;
  return entry;
}

at::Tensor saved_tensor(plugin::GradientHost& host) { return tensor_of(host.save()); }

void load_tensor(plugin::GradientHost& host, const at::Tensor& saved, std::string refusal) {
  at::Tensor bytes;
  View<const std::byte> view;
  try {
    bytes = plugin::bytes_on_cpu(saved, "saved state");
    view = plugin::byte_view(bytes, "saved state");
  } catch (const Error& error) {
    if (refusal.empty()) refusal = error.what();
  }
  host.load(view, refusal);
}

}  // namespace laconic::python
