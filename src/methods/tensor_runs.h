#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "laconic/step.h"

namespace laconic {

/// A value of each tensor in a step, such as its coefficients, and the runs of neighbours that have the same one.
template <class Value>
class TensorRuns {
 public:
  struct Run {
    Value value;
    std::uint64_t offset = 0;  ///< in the model
    std::uint64_t size = 0;
  };

  void prepare(std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) sizes_.push_back(tensor.size);
    values_.resize(tensors.size());
  }

  void set(std::span<const Value> each) { std::copy(each.begin(), each.end(), values_.begin()); }
  template <class Of>
  void set_by_tensor(Of&& of) {
    for (std::size_t tensor = 0; tensor < values_.size(); ++tensor) values_[tensor] = of(tensor);
  }
  std::span<const Value> values() const { return values_; }

  /// Calls work(run) for the tensors from `first_tensor` on, which begin at `offset` of the model and have `size`
  /// entries.
  template <class Work>
  void for_each(std::uint32_t first_tensor, std::uint64_t offset, std::uint64_t size, Work&& work) const {
    const std::uint64_t end = offset + size;
    for (std::uint32_t tensor = first_tensor; offset < end;) {
      Run run{values_[tensor], offset, 0};
      while (run.offset + run.size < end && values_[tensor] == run.value) run.size += sizes_[tensor++];
      offset += run.size;
      work(run);
    }
  }

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<Value> values_;
};

}  // namespace laconic
