#include "torch/plugin/used_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <utility>

namespace laconic::plugin {
namespace {

using torch::autograd::variable_list;

class Raise final : public torch::autograd::FunctionPreHook {
 public:
  Raise(std::shared_ptr<std::vector<std::atomic<bool>>> flags, std::size_t index)
      : flags_(std::move(flags)), index_(index) {}

  variable_list operator()(const variable_list& gradients) override {
    (*flags_)[index_] = true;
    return gradients;
  }

 private:
  std::shared_ptr<std::vector<std::atomic<bool>>> flags_;
  std::size_t index_;
};

}  // namespace

UsedParameters::UsedParameters(const std::vector<at::Tensor>& parameters)
    : parameters_(parameters), reached_(std::make_shared<Flags>(parameters.size())) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i]));
    accumulators_.back()->add_pre_hook(std::make_unique<Raise>(reached_, i));
  }
}

bool UsedParameters::take(std::uint32_t index) {
  return (*reached_)[index].exchange(false) && parameters_[index].grad().defined();
}

}  // namespace laconic::plugin
