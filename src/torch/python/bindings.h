#pragma once

#include <torch/csrc/utils/pybind.h>

// The parts of the module. Exceptions reach Python as laconic.InvalidConfig (a ValueError) or laconic.TransportError (a
// RuntimeError), and FileError as OSError. Calls that may wait release the interpreter's lock.

namespace laconic::python {

namespace py = pybind11;

void bind_checks(py::module_& module);
void bind_ddp(py::module_& module);
void bind_errors(py::module_& module);
void bind_fsdp(py::module_& module);
void bind_info(py::module_& module);
void bind_optimizer(py::module_& module);
void bind_records(py::module_& module);
void bind_report(py::module_& module);
void bind_communicator(py::module_& module);
void bind_reference(py::module_& module);
void bind_states(py::module_& module);

}  // namespace laconic::python
