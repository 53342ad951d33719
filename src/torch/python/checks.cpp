#include "laconic/threads.h"
#include "methods/table.h"
#include "torch/python/given.h"

namespace laconic::python {
namespace {

/// Makes the method on a rank of its own, which needs no other: what is wrong with its options is wrong there too.
void check_method(const std::string& method, const Texts& texts) {
  const MethodOptions options = options_of(method, texts);
  OptimizerOptions optimizer;
  if (!method_row(method).traits.is_sgd) {
    optimizer.name = "host";
    optimizer.host = [](View<const float>, View<float>) {};
  }
  const auto alone = thread_communicators(1);
  Place place(CpuOptions{.threads = 1});
  if (method_row(method).face == Face::gradient) {
    make_method(method, options, *alone.front(), place);
  } else {
    make_model_method(method, options, optimizer, *alone.front(), place);
  }
}

}  // namespace

void bind_checks(py::module_& module) {
  module.def("check_method", &check_method, py::arg("method"), py::arg("options"),
             py::call_guard<py::gil_scoped_release>(),
             "InvalidConfig for what the method refuses whatever the other ranks have. Not collective.");
}

}  // namespace laconic::python
