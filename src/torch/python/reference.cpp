#include <pybind11/stl.h>

#include "laconic/threads.h"
#include "laconic/two_levels.h"
#include "methods/settings.h"
#include "torch/plugin/tensors.h"
#include "torch/python/bindings.h"

namespace laconic::python {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
using Steps = std::vector<at::Tensor>;

using SgdTuple = std::tuple<float, double, bool, double>;  // learning rate, momentum, nesterov, weight decay

MethodOptions options_of(const std::string& method, const Texts& texts) {
  MethodOptions options;
  for (const auto& [name, text] : texts) set_option(options, method, name, text);
  return options;
}

std::vector<Tensor> tensors_of(const std::vector<std::string>& names, const std::vector<std::uint64_t>& sizes) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], sizes.at(i)});
  return tensors;
}

/// gradients[rank][step], flat; each becomes its aggregate. With the host of each rank on two levels.
void reduce_on_threads(const std::string& method, const Texts& texts, const std::vector<std::string>& names,
                       const std::vector<std::uint64_t>& sizes, std::uint64_t seed, std::uint32_t first_step,
                       const std::vector<Steps>& gradients, const std::vector<int>& hosts) {
  py::gil_scoped_release unlocked;
  const MethodOptions options = options_of(method, texts);
  const std::vector<Tensor> tensors = tensors_of(names, sizes);
  run_ranks(static_cast<int>(gradients.size()), [&](Communicator& communicator) {
    Place place(CpuOptions{.threads = 1});
    const auto levels = hosts.empty() ? nullptr : std::make_unique<TwoLevels>(communicator, hosts);
    const auto made = levels ? make_method(method, options, *levels, place)
                             : make_method(method, options, communicator, place);
    made->register_tensors(tensors);
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    std::uint32_t step = first_step;
    for (const at::Tensor& gradient : gradients[rank]) {
      made->reduce({seed, step++, rank}, plugin::float_view(gradient, "a gradient"));
    }
  });
}

/// Step by step from one start with gradients[rank][step] that are given, whatever the model: what each rank's model is
/// then.
std::vector<at::Tensor> step_on_threads(const std::string& method, const Texts& texts, const SgdTuple& sgd,
                                        const std::vector<std::string>& names, const std::vector<std::uint64_t>& sizes,
                                        std::uint64_t seed, const at::Tensor& start,
                                        const std::vector<Steps>& gradients) {
  py::gil_scoped_release unlocked;
  const auto [learning_rate, momentum, nesterov, weight_decay] = sgd;
  const MethodOptions options = options_of(method, texts);
  const OptimizerOptions optimizer{.momentum = momentum, .nesterov = nesterov, .weight_decay = weight_decay};
  std::vector<at::Tensor> models;
  for (std::size_t rank = 0; rank < gradients.size(); ++rank) models.push_back(start.clone());
  run_ranks(static_cast<int>(gradients.size()), [&](Communicator& communicator) {
    Place place(CpuOptions{.threads = 1});
    const auto made = make_model_method(method, options, optimizer, communicator, place);
    made->register_tensors(tensors_of(names, sizes));
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    const View<float> model = plugin::float_view(models[rank], "the model");
    made->start(model);
    std::uint32_t step = 0;
    for (const at::Tensor& gradient : gradients[rank]) {
      constexpr float kLoss = 0.0F;  // lsgd asks for one
      made->step({{seed, step++, rank}, learning_rate, kLoss}, model, plugin::float_view(gradient, "a gradient"));
    }
  });
  return models;
}

/// A method without a host, over a communicator: what a hook's time is compared with.
class DirectMethod {
 public:
  DirectMethod(std::shared_ptr<Communicator> communicator, int threads, const std::string& method, const Texts& texts,
               const std::vector<std::string>& names, const std::vector<std::uint64_t>& sizes)
      : communicator_(std::move(communicator)), place_(CpuOptions{.threads = threads}) {
    MethodOptions options;
    for (const auto& [name, text] : texts) set_option(options, method, name, text);
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], sizes.at(i)});
    method_ = make_method(method, options, *communicator_, place_);
    method_->register_tensors(tensors);
  }

  void reduce(std::uint32_t step, const at::Tensor& gradient) {
    method_->reduce({0, step, static_cast<std::uint32_t>(communicator_->rank())},
                    plugin::float_view(gradient, "a gradient"));
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  Place place_;
  std::unique_ptr<GradientMethod> method_;
};

}  // namespace

void bind_reference(py::module_& module) {
  py::class_<DirectMethod>(module, "DirectMethod", "A method without a host, for benchmarks.")
      .def(py::init<std::shared_ptr<Communicator>, int, const std::string&, const Texts&,
                    const std::vector<std::string>&, const std::vector<std::uint64_t>&>(),
           py::arg("communicator"), py::arg("threads"), py::arg("method"), py::arg("options"), py::arg("names"),
           py::arg("sizes"), py::call_guard<py::gil_scoped_release>())
      .def("reduce", &DirectMethod::reduce, py::arg("step"), py::arg("gradient"),
           py::call_guard<py::gil_scoped_release>());
  module.def("reduce_on_threads", &reduce_on_threads, py::arg("method"), py::arg("options"), py::arg("names"),
             py::arg("sizes"), py::arg("seed"), py::arg("first_step"), py::arg("gradients"),
             py::arg("hosts") = std::vector<int>(),
             "The method alone, its ranks threads of this process: gradients[rank][step], flat and in order, become "
             "their aggregates. What hooks are tested against.");
  module.def("step_on_threads", &step_on_threads, py::arg("method"), py::arg("options"), py::arg("sgd"),
             py::arg("names"), py::arg("sizes"), py::arg("seed"), py::arg("start"), py::arg("gradients"),
             "The same for model methods with SGD (learning rate, momentum, nesterov, weight decay): each rank's model "
             "after the last step. What laconic.Optimizer is tested against.");
}

}  // namespace laconic::python
