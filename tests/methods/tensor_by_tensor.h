#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "laconic/method.h"
#include "methods/harness.h"
#include "methods/placed_gradient.h"
#include "methods/trace.h"

namespace laconic::test {

/// In which types a run has its gradients. The values are those of `values`, and so are what is noted of the results;
/// they lie in memory as `memory`.
struct GradientTypes {
  NumberType memory = NumberType::float32;
  NumberType values = NumberType::float32;
};

/// A gradient that is handed over tensor by tensor.
class TensorByTensor {
 public:
  /// The tensors lie one after another, or apart from each other; then one of them is float32 in any case.
  TensorByTensor(Place& place, const std::vector<float>& flat, bool apart, GradientTypes types = {})
      : values_(types.values) {
    if (!apart) {
      tensors_.push_back(std::make_unique<PlacedGradient>(place, flat, types.memory));
      std::size_t offset = 0;
      for (const Tensor& tensor : small_model()) {
        views_.push_back(tensors_.front()->view().sub(offset, tensor.size));
        offset += tensor.size;
      }
      return;
    }
    auto next = flat.begin();
    for (const Tensor& tensor : small_model()) {
      const auto end = next + static_cast<std::ptrdiff_t>(tensor.size);
      const NumberType type = tensors_.size() == 1 ? NumberType::float32 : types.memory;
      tensors_.push_back(std::make_unique<PlacedGradient>(place, std::vector<float>(next, end), type));
      views_.push_back(tensors_.back()->view());
      next = end;
    }
  }
  /// In two lists, out of order, and in another order on each of four ranks.
  template <class Method>
  void add_to(Method& method, int rank) const {
    std::vector<std::uint32_t> order{3, 1, 0, 2};
    std::rotate(order.begin(), order.begin() + rank % 4, order.end());
    const auto part = [&](std::size_t i) { return TensorPart{order[i], views_[order[i]]}; };
    const std::vector<TensorPart> first{part(0), part(1)};
    const std::vector<TensorPart> second{part(2), part(3)};
    method.add(first);
    method.poll();
    method.add(second);
  }
  void note(Trace& trace) const {
    for (const auto& tensor : tensors_) trace.note(rounded_to(values_, tensor->get()));
  }

 private:
  NumberType values_;
  std::vector<std::unique_ptr<PlacedGradient>> tensors_;
  std::vector<GradientView> views_;
};

}  // namespace laconic::test
