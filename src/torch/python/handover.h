#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "torch/plugin/c10d/communicator.h"
#include "torch/python/bindings.h"

// Access to the C++ objects that torch's own Python classes hold.

namespace laconic::python {

/// The C++ object of one of torch's Python objects. It uses the plain pointer, because the holder type of the Python
/// class differs between versions of torch.
template <class T>
c10::intrusive_ptr<T> shared_with(const py::object& object) {
  return c10::intrusive_ptr<T>::reclaim_copy(object.cast<T*>());
}

/// Wraps a Python callable that returns a process group. It acquires the interpreter's lock for each call and for its
/// own destruction.
inline plugin::GroupMaker group_maker(const py::object& callable) {
  if (callable.is_none()) return {};
  const std::shared_ptr<py::object> kept(new py::object(callable), [](py::object* held) {
    py::gil_scoped_acquire lock;
    delete held;
  });
  return [kept] {
    py::gil_scoped_acquire lock;
    return shared_with<c10d::ProcessGroup>((*kept)());
  };
}

/// Wraps a Python callable that gets the ranks of a subgroup and returns an object with callables `make` and `part`.
inline plugin::SubgroupMaker subgroup_maker(const py::object& callable) {
  if (callable.is_none()) return {};
  const std::shared_ptr<py::object> kept(new py::object(callable), [](py::object* held) {
    py::gil_scoped_acquire lock;
    delete held;
  });
  return [kept](const std::vector<int>& ranks) {
    py::gil_scoped_acquire lock;
    const py::object groups = (*kept)(ranks);
    return plugin::Subgroup{group_maker(groups.attr("make")), subgroup_maker(groups.attr("part"))};
  };
}

}  // namespace laconic::python
