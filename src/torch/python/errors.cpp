#include <cerrno>
#include <exception>
#include <new>

#include "base/memory.h"
#include "base/whole_file.h"
#include "laconic/error.h"
#include "torch/python/bindings.h"

namespace laconic::python {
namespace {

/// The name under which users know it, in tracebacks and help.
void present(const py::object& error, const char* meaning) {
  error.attr("__module__") = "laconic";
  error.attr("__doc__") = meaning;
}

}  // namespace

void bind_errors(py::module_& module) {
  present(
      py::register_exception<InvalidConfig>(module, "InvalidConfig", PyExc_ValueError),
      "A wrong setting or call. The message names the value, the allowed range and the remedy. If ranks have to agree on "
      "the setting, all of them raise it.");
  present(py::register_exception<CorruptPayload>(module, "CorruptPayload", PyExc_RuntimeError),
          "A message or a saved state is damaged. Nothing was written from it.");
  present(py::register_exception<TransportError>(module, "TransportError", PyExc_RuntimeError),
          "Another rank failed, with its reason, or did not answer within the timeout.");
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::bad_alloc& full) {
      PyErr_SetString(PyExc_MemoryError, error_text(full).c_str());
    } catch (const FileError& file) {  // as open() would raise it: FileNotFoundError, PermissionError …
      errno = file.reason() == 0 ? EIO : file.reason();
      PyErr_SetFromErrnoWithFilename(PyExc_OSError, file.path().c_str());
    }
  });
}

}  // namespace laconic::python
