#include "methods/open_step.h"

#include <algorithm>

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {

void OpenStep::require_none() const {
  if (!open_) return;
  throw InvalidConfig(method_ + ": " + begin_ + " before " + finish_ + " of the step before: finish it first");
}

void OpenStep::require_closed(const char* call) const {
  if (open_) throw InvalidConfig(method_ + ": " + call + " in the middle of a step: finish it first");
}

void OpenStep::require_open(const char* call) const {
  if (!open_) throw InvalidConfig(method_ + ": " + call + " before " + begin_ + ": begin the step first");
}

void OpenStep::require_loadable() const {
  if (open_) throw InvalidConfig("saved state was given in the middle of a step: load it between steps");
}

void OpenStep::open(std::size_t tensors) {
  arrived_.assign(tensors, false);
  open_ = true;
}

void OpenStep::take(std::span<const Tensor> tensors, std::span<const TensorPart> parts) {
  std::size_t taken = 0;
  try {
    for (; taken < parts.size(); ++taken) take_one(tensors, parts[taken]);
  } catch (...) {
    for (const TensorPart& part : parts.first(taken)) arrived_[part.tensor] = false;
    throw;
  }
}

void OpenStep::take_one(std::span<const Tensor> tensors, const TensorPart& part) {
  if (part.tensor >= tensors.size()) {
    throw InvalidConfig(method_ + ": tensor " + std::to_string(part.tensor) + " was added, there are " +
                        std::to_string(tensors.size()) + ": tensors count from 0 in registration order");
  }
  const Tensor& tensor = tensors[part.tensor];
  require_size(tensor.name, part.values.size(), tensor.size);
  if (arrived_[part.tensor]) throw InvalidConfig(method_ + ": tensor " + tensor.name + " was added twice in a step");
  arrived_[part.tensor] = true;
}

void OpenStep::require_all(std::span<const Tensor> tensors) const {
  const auto missing = std::find(arrived_.begin(), arrived_.end(), false);
  if (missing == arrived_.end()) return;
  const auto tensor = static_cast<std::size_t>(missing - arrived_.begin());
  throw InvalidConfig(method_ + ": tensor " + tensors[tensor].name + " did not arrive in this step: add it");
}

}  // namespace laconic
