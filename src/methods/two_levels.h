#pragma once

#include "exchange/host_ranges.h"
#include "laconic/two_levels.h"
#include "methods/gradient_base.h"

namespace laconic {

/// A gradient method between machines whose ranks share the work:
///   1. inside the machine: each local rank gets the mean of its range of each chunk, while later tensors are missing
///   2. between machines: the inner method on the ranges of this local rank; it streams if it can
///   3. inside the machine, when all of it is there: the ranges are gathered
/// The inner method's tensors are this rank's slices of the tensors, with their names and numbers. A slice may be empty.
/// The chunks decide where tensors are cut, so their size is fixed (kCutEntries). A step counts if the inner methods of
/// all local ranks were finite, and they commit or forget it together.
class TwoLevelMethod final : public GradientBase {
 public:
  /// Neighbouring tensors of this many entries, or one that is larger, are cut together into one range per local rank.
  /// States depend on it.
  static constexpr std::uint64_t kCutEntries = std::uint64_t{1} << 20;

  /// `inner` is over levels.between().
  TwoLevelMethod(std::unique_ptr<GradientBase> inner, TwoLevels& levels, Place& place);

  /// Nothing has its aggregate before finish.
  std::uint64_t poll() override;
  double residual_norm() override { return inner_->residual_norm(); }

 private:
  /// The two exchanges on one channel inside the machine. Chunks on one channel follow each other, so they share them.
  struct OnChannel {
    OnChannel(Communicator& given, Place& place) : channel(given), mean(given, place), gathered(given, place) {}
    Communicator& channel;
    ScatteredMean mean;
    GatheredRanges gathered;
  };

  // Memory.
  void prepare() override;
  void save_memory(State& state) const override { state.put("inner", inner_->save()); }
  void load_memory(const State& state) override { inner_->load(state.nested("inner")); }
  void require_loadable_memory(const State& state) const override;
  void regrouped() override {}
  void do_resize(Communicator* next) override;

  // Step.
  bool by_tensor() const override { return true; }
  std::uint64_t fixed_chunk_entries() const override { return kCutEntries; }
  Communicator& chunk_communicator(Communicator&) override {
    return staged_within_ ? *staged_within_ : levels_.within();
  }
  void on_begin() override;
  bool takes_16bit() const override { return true; }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  bool has_second_level() const override { return true; }
  void second_level(Status& status, StepReport& report) override;
  void commit() override { count(inner_->conclude()); }
  void roll_back() override { count(inner_->abandon_exchange()); }

  void cut_tensors();
  View<float> own_range(const Chunk& chunk) const;
  bool finite_in_host(bool mine);
  void gather(StepReport& report);
  void count(const StepReport& between);

  std::unique_ptr<GradientBase> inner_;
  TwoLevels& levels_;
  std::unique_ptr<Communicator> staged_within_;  ///< around levels_.within(), for a place on a device
  std::vector<Tensor> slices_;                   ///< as the inner method knows them
  std::vector<std::uint64_t> offsets_;           ///< of slices in `own_`
  Buffer<float> own_;                            ///< this local rank's ranges, in the order of registration
  std::vector<std::unique_ptr<OnChannel>> channels_;
  std::vector<OnChannel*> channel_of_;  ///< by chunk
  Buffer<Status> gather_statuses_;      ///< by channel
  std::vector<GradientView> gradients_;  ///< by chunk, in this step
  std::vector<TensorPart> parts_;
  std::vector<std::uint32_t> verdicts_;  ///< of the machine's ranks: 1 if their slices were finite
};

}  // namespace laconic
