#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torch/plugin/gradient_host.h"
#include "torch/python/costs.h"
#include "torch/python/given.h"

// What the bindings of hosts of gradient methods have in common.

namespace laconic::python {

/// The hosts that are alive, so that they can be ended before the interpreter is: their threads need its lock to end
/// while a step is open.
class LivingHosts {
 public:
  void add(const std::shared_ptr<plugin::GradientHost>& host);
  void close();

 private:
  plugin::OwnProcess process_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<plugin::GradientHost>> hosts_;
};

LivingHosts& living_hosts();

py::dict metrics_of(const plugin::HostMetrics& metrics);
inline py::dict metrics_of(plugin::GradientHost& host) {
  return metrics_of(unlocked([&] { return host.metrics(); }));
}
/// Call these without the interpreter's lock.
at::Tensor saved_tensor(plugin::GradientHost& host);
void load_tensor(plugin::GradientHost& host, const at::Tensor& saved, std::string refusal);

}  // namespace laconic::python
