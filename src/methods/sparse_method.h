#pragma once

#include "base/buffer.h"
#include "exchange/sparse_sum.h"
#include "methods/settings.h"
#include "methods/gradient_base.h"

namespace laconic {

/// A chunk's share of the stretches in which entries are selected, and of the list of these entries.
struct SelectedShare {
  std::size_t first_stretch = 0;
  std::size_t stretch_count = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

template <class Stretch>
SelectedShare share_of(const Chunk& chunk, const std::vector<Stretch>& stretches) {
  SelectedShare share;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& stretch = stretches[i];
    if (stretch.offset < chunk.offset || stretch.offset >= chunk.offset + chunk.size) continue;
    if (share.stretch_count++ == 0) share.first_stretch = i, share.first = stretch.first;
    share.count += stretch.count;
  }
  return share;
}

/// What Top-k and RegTop-k share: a residual, a selection in each scope, the sparse sum. Memory: the residual, twice,
/// so that a step which is dropped leaves it as it was.
class SparseMethod : public GradientBase {
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
  /// What was sent of a chunk, from entry `first` of the list on, and the aggregate of all ranks there: RegTop-k
  /// remembers its support.
  virtual void remember(std::uint64_t /*first*/, ConstSparseView /*sent*/, View<const float> /*aggregate*/) {}
  virtual void committed() {}

  void prepare() override;
  void regrouped() override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> owed() override { return {residual_.view(parameters())}; }

  /// union = keep gives owners of index ranges k/W sums each: ranges that lie across tensors.
  bool by_tensor() const override { return by_tensor_ && !options_.keep_union; }
  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, View<float> aggregate, StatusView status, StepReport& report) override;
  void commit() override;

  const std::vector<Stretch>& stretches() const { return stretches_; }
  std::uint64_t selected_count() const { return selected_count_; }

 private:
  struct Share : SelectedShare {
    std::unique_ptr<SparseSum> sum;
    std::vector<std::uint64_t> borders;  ///< of the last step that counted, as is the size of its union
    std::uint64_t last_union = SparseSum::kNoUnion;
  };
  template <class Work>
  void each_saved_share(const State& state, Work&& work) const;

  void add_stretch(std::uint64_t offset, std::uint64_t size);
  void deal_shares();
  SparseView selected(const Share& share) const;
  void select_in(const Chunk& chunk, View<const float> gradient, StatusView status);
  void round_values(const Share& share, View<float> rest, StatusView status);

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
  std::vector<Share> shares_;  ///< by chunk
};

ValueFormat value_format(const Settings& settings);

}  // namespace laconic
