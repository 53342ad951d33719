#include "records/report.h"

#include <pybind11/stl.h>

#include "base/printable.h"
#include "laconic/error.h"
#include "torch/python/bindings.h"

namespace laconic::python {
namespace {

/// Names that stand in files and folders reach a terminal with the traceback.
std::string data_of(const std::vector<std::string>& runs) {
  try {
    return report_json(read_runs(runs));
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(printable(error.what()));
  }
}

}  // namespace

/// Only where nlohmann-json was found; laconic.report says so where it was not.
void bind_report(py::module_& module) {
  module.def("report_json", &data_of, py::arg("runs"), py::call_guard<py::gil_scoped_release>(),
             "What the page of charts needs of these runs' folders, as JSON.");
  module.def(
      "report_page",
      [](const std::string& html, const std::string& style, const std::string& data, const std::string& plotly,
         const std::string& script) { return joined_page({html, style, data, plotly, script}); },
      py::kw_only(), py::arg("html"), py::arg("style"), py::arg("data"), py::arg("plotly"), py::arg("script"),
      "The page of charts around the data of report_json.");
}

}  // namespace laconic::python
