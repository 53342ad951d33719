#include <torch/version.h>

#include "base/suggestion.h"
#include "laconic/place.h"
#include "laconic/threads.h"
#include "laconic/version.h"
#include "methods/table.h"
#include "torch/python/given.h"

namespace laconic::python {
namespace {

py::dict described(const Parameter& parameter) {
  py::dict entry;
  entry["name"] = parameter.name;
  entry["help"] = parameter.help;
  entry["default"] = parameter.fallback;
  entry["range"] = parameter.range();
  return entry;
}

py::dict described(const MethodRow& row) {
  py::list parameters;
  for (const Parameter& parameter : row.parameters) parameters.append(described(parameter));
  py::dict entry;
  entry["name"] = row.name;
  entry["face"] = row.face == Face::gradient ? "gradient" : "model";
  entry["summary"] = row.summary;
  entry["paper"] = row.paper;
  entry["memory_bytes"] = row.memory_bytes.usual;
  entry["most_memory_bytes"] = row.memory_bytes.most;
  entry["device_memory_bytes"] = row.device_bytes;
  entry["parameters"] = parameters;
  entry["is_sgd"] = row.traits.is_sgd;
  entry["sends_updates"] = row.traits.sends_updates;
  entry["suits"] = suits_name(row.traits.suits);
  entry["steps_alike"] = row.steps_alike();
  entry["takes_scoring"] = row.traits.takes_scoring;
  entry["needs_loss"] = row.traits.needs_loss;
  entry["optimizer"] = row.traits.optimizer;
  entry["min_size"] = row.traits.least_tensor_size;
  return entry;
}

}  // namespace

void bind_info(py::module_& module) {
  module.attr("version") = kVersion;
  module.attr("torch_version") = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  module.attr("dense_method") = kDenseMethod;
  module.attr("most_threads") = kMostThreads;
  module.def(
      "simd", [] { return std::make_pair(simd_name(default_simd()), simd_vectors(default_simd())); },
      "The SIMD level that kernels run at, and whose vectors those are: none, compiler or Highway.");
  module.def(
      "methods",
      [] {
        py::list rows;
        for (const MethodRow& row : method_table()) rows.append(described(row));
        return rows;
      },
      "The table of methods: name, face, summary, paper, memory_bytes, most_memory_bytes and device_memory_bytes per "
      "parameter, parameters, is_sgd, sends_updates, suits, steps_alike, takes_scoring, needs_loss, optimizer (empty: "
      "any), min_size.");
  module.def(
      "method",
      [](const std::string& name) {
        return described(row_named(method_table(), name, "method", " (laconic.methods() says what they do)"));
      },
      py::arg("name"), "The row of one method. Raises InvalidConfig for an unknown name.");
  module.def(
      "suits",
      [](const std::string& method, const Texts& options) {
        return suits_name(method_row(method).suits(options_of(method, options)));
      },
      py::arg("method"), py::arg("options"),
      "The optimizers that the method suits with these options: any, sgd or vote.");
}

}  // namespace laconic::python
