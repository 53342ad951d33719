#include "experiment/report.h"

#include <pybind11/stl.h>

#include "torch/python/bindings.h"

namespace laconic::python {

/// Only where nlohmann-json was found; laconic.report says so where it was not.
void bind_report(py::module_& module) {
  module.def(
      "report_json", [](const std::vector<std::string>& runs) { return report_json(read_runs(runs)); }, py::arg("runs"),
      py::call_guard<py::gil_scoped_release>(), "What the page of charts needs of these runs' folders, as JSON.");
}

}  // namespace laconic::python
