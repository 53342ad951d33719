#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "laconic/error.h"
#include "laconic/methods.h"
#include "laconic/two_levels.h"

namespace laconic::plugin {

/// A method for some of the parameters.
struct MethodGroup {
  std::string method;
  MethodOptions options;
  std::vector<std::uint32_t> parameters;  ///< indices in registration order, ascending
};

/// Options that must be the same on all ranks.
struct MethodSetOptions {
  std::uint64_t seed = 0;    ///< of the first group's draws; the other groups' seeds derive from it and their number
  std::uint32_t warmup = 0;  ///< number of first steps in which everything is sent dense
  NonfinitePolicy policy = NonfinitePolicy::error;
  /// The host's optimizer may leave out a parameter that no rank used. Then what the ranks sent of it is carried over
  /// to a step that uses it.
  bool drops_unused = false;
  /// A parameter is used by all ranks or by none in a step, so that ranks need not tell each other.
  bool used_alike = false;
  std::uint64_t chunk_entries = 0;  ///< for methods that stream; 0: their own choice
  /// If it is above 0, the gradient of this rank is scaled down to this norm over all parameters before a method sees
  /// it. The norm needs the whole gradient, so nothing is exchanged before the last parameter has arrived.
  double clip = 0.0;
  std::vector<int> hosts{};  ///< the machine of each rank, for two levels; empty: one level

  /// Whether gradients of 16 bits are taken where they lie. A clipped gradient is float32: in 16 bits the product would
  /// be rounded, and what is lost would not be remembered.
  bool takes_16bit() const { return clip == 0.0; }
};

/// Parameters that are processed together, in the order in which they should lie in memory to avoid copies.
struct Neighbours {
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> starts;  ///< those before which a cut splits no chunk
  bool streams = false;               ///< work may begin before the last of them has arrived
};

/// What one step, or all steps, did on this rank.
struct SetMetrics {
  Traffic traffic;
  Traffic within;                 ///< on two levels what stays inside the machine, and `traffic` is what leaves it
  std::uint64_t dense_bytes = 0;  ///< size of all parameters as float32
  double select_seconds = 0.0;
  double wait_seconds = 0.0;  ///< from the arrival of the last part to the end of the exchange
  std::uint64_t early_entries = 0;  ///< entries whose aggregate was there when the last part arrived
  double bits = 0.0;          ///< of the first quantizer; in a sum, of the last step

  SetMetrics& operator+=(const SetMetrics& other);
};

/// Ranks used different parameters in a step. All ranks of the parameters met it and dropped the step.
class OtherParameters : public InvalidConfig {
 public:
  using InvalidConfig::InvalidConfig;
};

/// The seed of a group's draws; the first group has the host's seed. Each method numbers its own tensors, so groups
/// with the same seed would round tensors of the same number with the same draws.
std::uint64_t seed_of_group(std::uint64_t seed, std::uint32_t group);

/// The gradient methods of a host. Each parameter belongs to one of them, and their steps count together or not at all.
/// Only one thread may use it at a time. Parameters are identified by their index in registration order, so nothing
/// depends on the order in which they arrive. The methods share one communicator: early exchanges use duplicates of it,
/// the others run in the order of the groups. If duplicates do not overlap, those of one group alone are early: of the
/// largest one whose method streams.
class MethodSet {
 public:
  /// Makes the methods. Collective: ranks that differ are all told where. Groups must cover every parameter once.
  /// `shards`: the ranks that hold the other parts of the same parameters, if these are sharded. Their steps count
  /// together or not at all, and `clip` is the norm of all parts.
  MethodSet(std::vector<Tensor> parameters, std::vector<MethodGroup> groups, const MethodSetOptions& options,
            Communicator& communicator, Place& place, Communicator* shards = nullptr);

  void begin();
  /// By parameter: 1 if an aggregate that the host dropped is added to its next gradient. That part must be float32.
  std::span<const std::uint32_t> carried() const { return is_carried_; }
  /// Each parameter is added whole and once per step, in any order.
  void add(std::span<const TensorPart> parts);
  /// This rank did not use the parameter in this step; its part is still added, and is zero and float32: if no rank
  /// used it, the aggregate is carried without rounding.
  void mark_unused(std::uint32_t parameter) { used_[parameter] &= ~kUsed; }
  /// A further gradient of the parameter came after its part had been added: it waits for a step of its own.
  void mark_late(std::uint32_t parameter) { used_[parameter] |= kLate; }
  /// This rank drops the step. The other ranks learn it and drop it too if `drops_unused` is set.
  void mark_abandoned() { abandoned_ = true; }
  bool complete() const { return arrived_ == parameters_.size(); }
  /// Whether exchanges may be in flight, so that poll is useful.
  bool streams() const;
  void poll();
  /// Waits for all. Returns true if the step counts. If a value was not finite, it returns false, the memory is as it
  /// was and the parts are zero; but if `report` is true, NonfinitePolicy::error throws NonfiniteValue instead, on all
  /// ranks alike. With `used_alike` it throws OtherParameters if ranks used different ones, or had late gradients of
  /// different ones, and drops the step too.
  bool finish(bool report);
  bool is_open() const { return open_; }
  /// Whether a rank abandoned the last step. The same on all ranks, also on those of other shards.
  bool abandoned() const { return abandoned_; }

  /// One entry per group.
  std::vector<Neighbours> neighbours() const;
  std::uint32_t step() const { return step_; }
  std::uint64_t skipped() const { return skipped_; }
  const SetMetrics& last() const { return last_; }
  const SetMetrics& total() const { return total_; }
  double residual_norm();

  State save() const;
  /// Throws InvalidConfig for a state from which this rank cannot continue.
  void require_loadable(const State& state) const;
  /// Continues from a state that require_loadable has accepted.
  void take(const State& state);
  /// Does both, collectively. If ranks load different steps, or one rejects its state, all throw and nothing has
  /// changed on any. A caller without bytes passes the reason in `refusal`.
  void load(View<const std::byte> saved, std::string refusal = {});

 private:
  struct Group {
    std::unique_ptr<GradientMethod> method;
    bool owes = false;  ///< the method carries a residual, of which nothing may be lost
    std::vector<std::uint32_t> parameters;
    std::vector<TensorPart> batch;  ///< parts of one add; of all of them, if it waits
    bool waits = false;  ///< for the methods before it, and for the one that is exchanged early
  };

  // What a rank says of a parameter.
  static constexpr std::byte kUnused{0};
  static constexpr std::byte kUsed{1};
  static constexpr std::byte kLate{2};

  Group make_group(const MethodGroup& group);
  void let_one_go_first();
  void require_cover(const std::vector<MethodGroup>& groups) const;
  std::span<Group> active();
  std::uint32_t group_count() const { return static_cast<std::uint32_t>(groups_.size()); }
  void pass_on(std::span<const TensorPart> parts);
  static void add_batch(Group& group);
  void clip_held();
  double norm_of_held();
  double squares_of_all_shards(double squares);
  std::optional<int> nonfinite_shard(bool finite);
  void add_carried(const TensorPart& part);
  std::vector<std::byte> used_anywhere(std::string& difference);
  std::string text_of_difference(std::size_t rank, std::size_t parameter, std::byte missing) const;
  void carry(const std::vector<std::byte>& used);
  void reserve_carried();
  /// Where ranks use parameters alike, the memory is there from the first unused parameter on.
  bool carries(const State& state) const { return !options_.used_alike || state.has("carried"); }
  void count(std::span<const StepReport> reports);
  void save_carried(State& state) const;

  std::vector<Tensor> parameters_;
  std::vector<std::uint64_t> offsets_;
  MethodSetOptions options_;
  Communicator& communicator_;
  Communicator* shards_;
  Place& place_;
  std::unique_ptr<TwoLevels> levels_;  ///< which the methods share; null: one level
  std::vector<Group> groups_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::uint32_t> index_in_group_;
  std::optional<Group> dense_;  ///< all parameters, for the warm-up

  bool open_ = false;
  std::uint32_t step_ = 0;
  std::uint64_t skipped_ = 0;
  std::size_t arrived_ = 0;
  std::vector<GradientView> parts_;
  std::vector<TensorPart> held_;  ///< with clip, until all are there
  Buffer<float> norms_;           ///< with clip, of each parameter's gradient
  std::vector<float> read_norms_;
  std::vector<std::byte> used_;  ///< by parameter; the last byte tells whether the rank abandoned the step
  bool abandoned_ = false;
  Buffer<float> carried_;                  ///< aggregates that the host dropped, by parameter
  std::vector<std::uint32_t> is_carried_;  ///< 1 if the parameter has one
  SetMetrics last_;
  SetMetrics total_;
};

}  // namespace laconic::plugin
