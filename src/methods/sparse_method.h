#pragma once

#include "base/buffer.h"
#include "exchange/sparse_sum.h"
#include "methods/scopes.h"
#include "methods/settings.h"
#include "methods/gradient_base.h"

namespace laconic {

/// What Top-k and RegTop-k share: a residual, a selection in each scope, and the sparse sum. Memory: the residual,
/// twice, so that a dropped step leaves it as it was.
class SparseMethod : public GradientBase {
 protected:
  SparseMethod(const Settings& settings, Communicator& communicator, Place& place);

  /// Selects in one scope: rest = g + e with the selected zeroed; indices count from the scope's start.
  virtual void select(const Scope& scope, View<const float> gradient, View<const float> residual, View<float> rest,
                      SparseView selected, StatusView status) = 0;
  /// Receives what was sent of a chunk, beginning at entry `first` of the list, and the aggregate of all ranks there.
  /// RegTop-k stores its support here.
  virtual void remember(std::uint64_t /*first*/, ConstSparseView /*sent*/, View<const float> /*aggregate*/) {}
  virtual void committed() {}

  void prepare() override;
  void regrouped() override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> owed() override { return {residual_.view(parameters())}; }

  /// With union = keep each owner of an index range returns k/W sums, and index ranges span tensors.
  bool by_tensor() const override { return by_tensor_ && !options_.keep_union; }
  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, View<float> aggregate, StatusView status, StepReport& report) override;
  void commit() override;

  const Scopes& scopes() const { return scopes_; }

 private:
  struct ChunkSum : ChunkSelection {
    std::unique_ptr<SparseSum> sum;
    std::vector<std::uint64_t> borders;  ///< these and the size of the union are from the last step that counted
    std::uint64_t last_union = SparseSum::kNoUnion;
  };
  template <class Work>
  void each_saved_sum(const State& state, Work&& work) const;

  void make_sums();
  View<float> thresholds() const { return thresholds_.view(scopes_.all().size()); }
  SparseView selected(const ChunkSum& chunk_sum) const;
  void select_in(const Chunk& chunk, View<const float> gradient, StatusView status);
  void round_values(const ChunkSum& chunk_sum, View<float> rest, StatusView status);

  double keep_;
  bool by_tensor_;
  SparseSumOptions options_;
  Scopes scopes_;
  Buffer<float> thresholds_;       ///< of each scope in the last step; 0 starts cold
  Buffer<float> next_thresholds_;  ///< of this step
  Buffer<float> residual_;
  Buffer<float> next_residual_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> errors_;
  std::vector<ChunkSum> sums_;  ///< by chunk
};

ValueFormat value_format(const Settings& settings);

}  // namespace laconic
