#pragma once

#include <pybind11/stl.h>

#include <cstring>
#include <tuple>
#include <utility>

#include "methods/settings.h"
#include "torch/plugin/method_set.h"
#include "torch/plugin/own_process.h"
#include "torch/plugin/tensors.h"
#include "torch/python/bindings.h"

// Conversions between Python and the hosts, the same for hooks and optimizers.

namespace laconic::python {

using Texts = std::vector<std::pair<std::string, std::string>>;
/// Method, its options, indices of parameters.
using GroupTuple = std::tuple<std::string, Texts, std::vector<std::uint32_t>>;

inline MethodOptions options_of(const std::string& method, const Texts& texts) {
  MethodOptions options;
  for (const auto& [name, text] : texts) set_option(options, method, name, text);
  return options;
}

inline std::vector<plugin::MethodGroup> groups_of(const std::vector<GroupTuple>& given) {
  std::vector<plugin::MethodGroup> groups;
  for (const auto& [method, texts, parameters] : given) {
    groups.push_back({.method = method, .options = options_of(method, texts), .parameters = parameters});
  }
  return groups;
}

inline NonfinitePolicy policy_of(bool skips) { return skips ? NonfinitePolicy::skip : NonfinitePolicy::error; }

/// A state as a tensor of bytes.
inline at::Tensor tensor_of(const State& state) {
  const std::vector<std::byte> bytes = state.to_bytes();
  at::Tensor saved = at::empty({static_cast<std::int64_t>(bytes.size())}, at::TensorOptions().dtype(at::kByte));
  if (!bytes.empty()) std::memcpy(saved.data_ptr<std::uint8_t>(), bytes.data(), bytes.size());
  return saved;
}

/// The state in a tensor that tensor_of made, on any device.
inline State state_of(const at::Tensor& saved) {
  const at::Tensor bytes = plugin::bytes_on_cpu(saved, "saved state");
  return State::from_bytes(View<const std::byte>(plugin::byte_view(bytes, "saved state")));
}

/// Runs `work` without the interpreter's lock and returns its result.
template <class Work>
auto unlocked(const Work& work) {
  const py::gil_scoped_release released;
  return work();
}

/// Releases the interpreter's lock first: a host's thread, groups and calls may need it to end, and the thread that
/// drops the last reference may hold it.
template <class Host>
void delete_unlocked(Host* host) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    py::gil_scoped_release unlocked;
    delete host;
  } else {
    delete host;
  }
}

/// Destroys a host in the process that made it. A fork has none of its threads and would wait for them forever, so
/// there the host is left as it is.
template <class Host>
struct EndHost {
  plugin::OwnProcess process;

  void operator()(Host* host) const {
    if (process.is_this()) delete_unlocked(host);
  }
};

}  // namespace laconic::python
