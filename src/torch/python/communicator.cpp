#include <pybind11/stl.h>

#include "laconic/two_levels.h"
#include "torch/plugin/reserved_threads.h"
#include "torch/python/handover.h"

namespace laconic::python {
namespace {

std::shared_ptr<Communicator> c10d_communicator(const py::object& group, const py::object& store,
                                                const py::object& make_group, double timeout_seconds,
                                                plugin::StagingDevice staging, const py::object& make_part) {
  const auto engine = shared_with<c10d::ProcessGroup>(group);
  const auto keys = shared_with<c10d::Store>(store);
  const plugin::GroupMaker maker = group_maker(make_group);
  const plugin::SubgroupMaker parts = subgroup_maker(make_part);
  py::gil_scoped_release unlocked;
  auto made = std::make_shared<plugin::C10dCommunicator>(engine, keys, maker, staging, parts);
  made->set_timeout(Milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000)));
  return made;
}

}  // namespace

void bind_communicator(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<Communicator, std::shared_ptr<Communicator>>(
      module, "Communicator", "The ranks of a run and the engine between them. laconic._process_groups makes these.")
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("description", &Communicator::description)
      .def_property_readonly(
          "timeout", [](const Communicator& self) { return static_cast<double>(self.timeout().count()) / 1000; },
          "Seconds that a wait lasts.")
      .def(
          "fail", [](Communicator& self, const std::string& reason) { self.fail(reason); }, py::arg("reason"),
          Unlocked(), "Tells the others that this rank cannot go on, and why.");
  py::class_<plugin::ReservedThreads>(module, "ReservedThreads", "Threads that wait until they are released.")
      .def(py::init<int, const std::string&>(), py::arg("count"), py::arg("purpose"), Unlocked())
      .def("release", &plugin::ReservedThreads::release, Unlocked());
  module.def("c10d_communicator", &c10d_communicator, py::arg("group"), py::arg("store"), py::arg("make_group"),
             py::arg("timeout"), py::arg("staging") = py::none(), py::arg("make_part") = py::none(),
             "A communicator over a process group that nobody else uses, its store, and a callable that makes further "
             "groups of the same ranks. Bytes are copied to `staging` for the engine, if that is given. `make_part` "
             "gets some of the ranks and returns an object that makes groups of these.");
  module.def("hosts_by_name", &hosts_by_name, py::arg("communicator"), Unlocked(),
             "The number of each rank's host, by its name. Collective.");
  module.def("hosts_by_color", &hosts_by_color, py::arg("communicator"), py::arg("color"), Unlocked(),
             "The number of each rank's host; the ranks of a host pass the same colour. Collective.");
}

}  // namespace laconic::python
