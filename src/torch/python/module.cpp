#include "torch/python/bindings.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ side of laconic. The package laconic is the front door.";
  laconic::python::bind_errors(module);
  laconic::python::bind_info(module);
  laconic::python::bind_checks(module);
  laconic::python::bind_optimizer(module);
  laconic::python::bind_communicator(module);
  laconic::python::bind_ddp(module);
  laconic::python::bind_fsdp(module);
  laconic::python::bind_reference(module);
  laconic::python::bind_states(module);
  laconic::python::bind_records(module);
#if LACONIC_REPORT_DATA
  laconic::python::bind_report(module);
#endif
}
