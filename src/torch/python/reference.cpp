#include <pybind11/stl.h>

#include "laconic/threads.h"
#include "methods/settings.h"
#include "torch/plugin/tensors.h"
#include "torch/python/bindings.h"

namespace laconic::python {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
using Steps = std::vector<at::Tensor>;

/// gradients[rank][step], flat; each becomes its aggregate.
void reduce_on_threads(const std::string& method, const Texts& texts, const std::vector<std::string>& names,
                       const std::vector<std::uint64_t>& sizes, std::uint64_t seed, std::uint32_t first_step,
                       const std::vector<Steps>& gradients) {
  py::gil_scoped_release unlocked;
  MethodOptions options;
  for (const auto& [name, text] : texts) set_option(options, method, name, text);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], sizes.at(i)});
  run_ranks(static_cast<int>(gradients.size()), [&](Communicator& communicator) {
    Place place(CpuOptions{.threads = 1});
    const auto made = make_method(method, options, communicator, place);
    made->register_tensors(tensors);
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    std::uint32_t step = first_step;
    for (const at::Tensor& gradient : gradients[rank]) {
      made->reduce({seed, step++, rank}, plugin::float_view(gradient, "a gradient"));
    }
  });
}

}  // namespace

void bind_reference(py::module_& module) {
  module.def("reduce_on_threads", &reduce_on_threads, py::arg("method"), py::arg("options"), py::arg("names"),
             py::arg("sizes"), py::arg("seed"), py::arg("first_step"), py::arg("gradients"),
             "The method alone, its ranks threads of this process: gradients[rank][step], flat and in order, become "
             "their aggregates. What hooks are tested against.");
}

}  // namespace laconic::python
