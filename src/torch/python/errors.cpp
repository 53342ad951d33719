#include <exception>

#include "laconic/error.h"
#include "torch/python/bindings.h"

namespace laconic::python {

void bind_errors(py::module_& module) {
  py::register_exception<InvalidConfig>(module, "InvalidConfig", PyExc_ValueError);
  py::register_exception<CorruptPayload>(module, "CorruptPayload", PyExc_RuntimeError);
  py::register_exception<TransportError>(module, "TransportError", PyExc_RuntimeError);
}

}  // namespace laconic::python
