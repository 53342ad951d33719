#include <pybind11/stl.h>

#include <algorithm>
#include <variant>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "torch/plugin/redeal.h"
#include "torch/python/given.h"

// A saved state entry by entry, for checkpoints that are loaded by other numbers of ranks.

namespace laconic::python {
namespace {

/// An array of floats or of 32-bit words, a number, or a text.
using Value = std::variant<at::Tensor, double, std::string>;
using Entries = std::vector<std::pair<std::string, Value>>;

template <class T>
bool read_array(const State& state, const std::string& name, at::ScalarType type, at::Tensor& found) {
  found = at::empty({static_cast<std::int64_t>(state.size(name))}, at::TensorOptions().dtype(type));
  try {
    state.get(name, View<T>(static_cast<T*>(found.data_ptr()), state.size(name)));
    return true;
  } catch (const InvalidConfig&) {
    return false;  // it is of another kind
  }
}

Value value_of(const State& state, const std::string& name) {
  at::Tensor found;
  if (read_array<float>(state, name, at::kFloat, found)) return found;
  if (read_array<std::uint32_t>(state, name, at::kInt, found)) return found;
  try {
    return state.number(name);
  } catch (const InvalidConfig&) {
    return state.text(name);
  }
}

Entries entries_of(const at::Tensor& saved) {
  const State state = state_of(saved);
  Entries entries;
  for (const std::string& name : state.names()) entries.emplace_back(name, value_of(state, name));
  return entries;
}

void put(State& state, const std::string& name, const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return state.put(name, *number);
  if (const auto* text = std::get_if<std::string>(&value)) return state.put(name, *text);
  const at::Tensor array = std::get<at::Tensor>(value).contiguous().cpu();
  const auto size = static_cast<std::size_t>(array.numel());
  if (array.scalar_type() == at::kFloat) {
    state.put(name, View<const float>(array.data_ptr<float>(), size));
  } else {
    state.put(name, View<const std::uint32_t>(static_cast<const std::uint32_t*>(array.data_ptr()), size));
  }
}

at::Tensor state_with(const Entries& entries) {
  State state;
  for (const auto& [name, value] : entries) put(state, name, value);
  return tensor_of(state);
}

std::vector<Tensor> tensors_of(const std::vector<std::string>& names, const std::vector<std::uint64_t>& sizes) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], sizes.at(i)});
  return tensors;
}

/// Those entries of a method's state that are arrays with a value for each entry of the gradient. They are found by
/// their sizes, in states for two sizes of gradient.
std::vector<std::string> per_entry(const std::string& method, const Texts& texts) {
  const auto alone = thread_communicators(1);
  std::vector<std::string> found;
  for (const std::uint64_t size : {1024, 1536}) {
    Place place(CpuOptions{.threads = 1});
    const auto made = make_method(method, options_of(method, texts), *alone.front(), place);
    const Tensor tensor{"gradient", size};
    made->register_tensors({&tensor, 1});
    const at::Tensor saved = tensor_of(made->save());
    std::vector<std::string> here;
    for (const auto& [name, value] : entries_of(saved)) {
      const auto* array = std::get_if<at::Tensor>(&value);
      const bool fits = array != nullptr && array->scalar_type() == at::kFloat;
      if (fits && array->numel() == static_cast<std::int64_t>(size)) here.push_back(name);
    }
    if (size == 1024) found = here;
    std::erase_if(found, [&](const std::string& name) { return std::ranges::find(here, name) == here.end(); });
  }
  return found;
}

/// The state of a method that has made no step.
at::Tensor fresh_state(const std::string& method, const Texts& texts, const std::vector<std::string>& names,
                       const std::vector<std::uint64_t>& sizes, int rank, int ranks) {
  at::Tensor saved;
  run_ranks(ranks, [&](Communicator& communicator) {
    Place place(CpuOptions{.threads = 1});
    const auto made = make_method(method, options_of(method, texts), communicator, place);
    made->register_tensors(tensors_of(names, sizes));
    if (communicator.rank() == rank) saved = tensor_of(made->save());
  });
  return saved;
}

/// The state of `rank` of `ranks` that continues from those of other numbers of ranks.
at::Tensor redealt_state(const std::string& method, const Texts& texts, const std::vector<std::string>& names,
                         const std::vector<std::uint64_t>& sizes, const std::vector<at::Tensor>& saved, int rank,
                         int ranks) {
  std::vector<State> states;
  for (const at::Tensor& each : saved) states.push_back(state_of(each));
  const plugin::MethodMaker make = [&](Communicator& communicator, Place& place) -> std::unique_ptr<Method> {
    return make_method(method, options_of(method, texts), communicator, place);
  };
  return tensor_of(plugin::redealt(states, rank, ranks, tensors_of(names, sizes), make));
}

}  // namespace

void bind_states(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("state_entries", &entries_of, py::arg("saved"), Unlocked(),
             "Names and values of a saved state: tensors of float32 or int32, numbers, texts.");
  module.def("state_with", &state_with, py::arg("entries"), Unlocked(), "And back.");
  module.def("entries_per_value", &per_entry, py::arg("method"), py::arg("options"), Unlocked(),
             "The arrays of a method's state that have a value for each entry of the gradient.");
  module.def("fresh_state", &fresh_state, py::arg("method"), py::arg("options"), py::arg("names"), py::arg("sizes"),
             py::arg("rank"), py::arg("ranks"), Unlocked(), "A method's state before its first step.");
  module.def("redealt_state", &redealt_state, py::arg("method"), py::arg("options"), py::arg("names"), py::arg("sizes"),
             py::arg("saved"), py::arg("rank"), py::arg("ranks"), Unlocked(),
             "A method's state after a change of the number of ranks.");
}

}  // namespace laconic::python
