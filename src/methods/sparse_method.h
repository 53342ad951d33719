#pragma once

#include "base/buffer.h"
#include "exchange/sparse_sum.h"
#include "methods/settings.h"

namespace laconic {

/// What Top-k and RegTop-k share: a residual, a selection in each scope, the sparse sum. Memory: the residual, twice,
/// so that a step which is dropped leaves it as it was.
class SparseMethod : public GradientMethod {
 protected:
  SparseMethod(const Settings& settings, Communicator& communicator, Place& place);

  /// A stretch of the flat gradient in which k entries are selected.
  struct Stretch {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t first = 0;  ///< where its selected entries begin in the list
    std::uint64_t count = 0;  ///< k = max(1, floor(keep·size))
    float threshold = 0.0F;   ///< of the last step; 0 starts cold
  };

  /// Selects in one stretch: rest = g + e with the selected zeroed; indices count from the stretch's start.
  virtual void select(std::size_t number, const Stretch& stretch, View<const float> gradient,
                      View<const float> residual, View<float> rest, SparseView selected, StatusView status) = 0;
  /// What was sent, and the aggregate of all ranks: RegTop-k remembers its support.
  virtual void remember(ConstSparseView /*sent*/, View<const float> /*aggregate*/) {}
  virtual void committed() {}

  void prepare() override;
  void regrouped() override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  std::vector<View<float>> owed() override { return {residual_.view(parameters())}; }

  void aggregate(StepKey key, View<float> gradient, StatusView status, StepReport& report) override;
  void commit() override;

  const std::vector<Stretch>& stretches() const { return stretches_; }
  std::uint64_t selected_count() const { return selected_count_; }

 private:
  void make_exchange();
  void round_values(StatusView status);

  double keep_;
  bool by_tensor_;
  SparseSumOptions options_;
  std::vector<Stretch> stretches_;
  std::vector<float> thresholds_;
  std::uint64_t selected_count_ = 0;
  Buffer<float> residual_;
  Buffer<float> next_residual_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> errors_;
  std::unique_ptr<SparseSum> sum_;
  std::vector<std::uint64_t> borders_;  ///< of the last step that counted, as is the size of its union
  std::uint64_t last_union_ = SparseSum::kNoUnion;
};

ValueFormat value_format(const Settings& settings);

}  // namespace laconic
