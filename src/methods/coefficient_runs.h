#pragma once

#include <span>
#include <vector>

#include "laconic/coefficients.h"
#include "laconic/step.h"

namespace laconic {

/// Consecutive tensors that have the same coefficients in a step.
struct CoefficientRun {
  Coefficients coefficients;
  std::uint64_t offset = 0;  ///< in the model
  std::uint64_t size = 0;
};

/// The coefficients of each tensor in a step, and the runs in which they are equal.
class CoefficientRuns {
 public:
  void prepare(std::span<const Tensor> tensors);

  void set(const Coefficients& all);
  void set(std::span<const Coefficients> each);
  bool any_momentum() const;

  /// Calls work(run) for the tensors from `first_tensor` on, which begin at `offset` of the model and have `size`
  /// entries.
  template <class Work>
  void for_each(std::uint32_t first_tensor, std::uint64_t offset, std::uint64_t size, Work&& work) const {
    const std::uint64_t end = offset + size;
    for (std::uint32_t tensor = first_tensor; offset < end;) {
      CoefficientRun run{coefficients_[tensor], offset, 0};
      while (run.offset + run.size < end && coefficients_[tensor] == run.coefficients) run.size += sizes_[tensor++];
      offset += run.size;
      work(run);
    }
  }

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<Coefficients> coefficients_;
};

}  // namespace laconic
