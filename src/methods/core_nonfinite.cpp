// Which rank and tensor had a value that is not finite.

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "laconic/nonfinite.h"
#include "methods/core.h"

namespace laconic {

void MethodCore::note_nonfinite(const Chunk& chunk, ConstGradientView values, const Status& status) {
  if (status.nonfinite == 0) return;
  std::uint64_t offset = 0;
  for (std::uint32_t i = chunk.first_tensor; i < chunk.first_tensor + chunk.tensor_count; ++i) {
    const bool finite = is_finite(*place_, values.sub(offset, tensors_[i].size));
    offset += tensors_[i].size;
    if (finite) continue;
    bad_tensor_ = std::min<std::uint64_t>(bad_tensor_, i);
    return;
  }
}

void MethodCore::locate_nonfinite(View<const float> values, const Status& status) {
  forget_nonfinite();
  const Chunk all{.tensor_count = static_cast<std::uint32_t>(tensors_.size()), .size = parameters_};
  note_nonfinite(all, values, status);
}

/// Each rank sends the tensor that it found and its own step number, because asynchronous ranks have made different
/// numbers of steps. The payloads carried the flag of the culprit. An engine's own sum carries no flags: then the
/// culprit is the lowest rank that found a tensor.
void MethodCore::refuse_nonfinite(const Status& status, std::uint32_t step, const std::string& what,
                                  const std::string& remedy) {
  struct Found {
    std::uint64_t tensor;
    std::uint64_t step;
  };
  const Found mine{bad_tensor_, step};
  std::vector<Found> found(static_cast<std::size_t>(ranks()));
  communicator_->all_gather(as_bytes(View<const Found>(&mine, 1)), as_writable_bytes(View<Found>(found))).wait();
  std::size_t culprit = 0;
  if (status.nonfinite_rank != 0) {
    culprit = status.nonfinite_rank - 1;
  } else {
    const auto first =
        std::find_if(found.begin(), found.end(), [](const Found& each) { return each.tensor != kNoTensor; });
    if (first != found.end()) culprit = static_cast<std::size_t>(first - found.begin());
  }
  throw NonfiniteValue(nonfinite_message(culprit, found[culprit].tensor, found[culprit].step, what, remedy));
}

void MethodCore::refuse_own_nonfinite(std::uint32_t step) {
  const std::string message =
      nonfinite_message(static_cast<std::size_t>(rank()), bad_tensor_, step, "gradient", kNonfiniteRemedy);
  communicator_->fail(message);
  throw NonfiniteValue(message);
}

std::string MethodCore::nonfinite_message(std::size_t culprit, std::uint64_t tensor, std::uint64_t step,
                                          const std::string& what, const std::string& remedy) const {
  return name_ + ": rank " + std::to_string(culprit) + " has a NaN or an Inf " +
         (tensor == kNoTensor ? std::string("in what it remembers or in a sum")
                              : "in the " + what + " of tensor " + tensors_[tensor].name) +
         " at step " + std::to_string(step) + " (counted from 0): " + remedy;
}

}  // namespace laconic
