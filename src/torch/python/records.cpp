#include "base/whole_file.h"
#include "records/run_record.h"
#include "torch/python/bindings.h"

namespace laconic::python {

/// Paths come as bytes, as os.fsencode makes them: a name need not be UTF-8.
void bind_records(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> unlocked;
  py::class_<RunRecord>(module, "RunRecord", "The files of one run's folder, written as texts.")
      .def(py::init<std::string>(), py::arg("folder"), unlocked)
      .def("write_config", &RunRecord::write_config, py::arg("text"), unlocked)
      .def("open_metrics", &RunRecord::open_metrics, py::arg("steps"), unlocked)
      .def("write_line", &RunRecord::write_line, py::arg("line"), unlocked)
      .def("write_result", &RunRecord::write_result, py::arg("text"), unlocked)
      .def("remove_result", &RunRecord::remove_result, unlocked);
  module.def(
      "write_whole_file",
      [](const std::string& path, const std::string& text) { write_whole_file(path, text); }, py::arg("path"),
      py::arg("text"), unlocked, "Writes a file so that a reader finds the old one or the complete new one.");
}

}  // namespace laconic::python
