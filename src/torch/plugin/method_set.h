#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "laconic/methods.h"

namespace laconic::plugin {

/// A method for some of the parameters.
struct MethodGroup {
  std::string method;
  MethodOptions options;
  std::vector<std::uint32_t> parameters;  ///< indices in registration order, ascending
};

/// What all ranks have alike.
struct MethodSetOptions {
  std::uint64_t seed = 0;    ///< of the first group's draws; the others' seeds derive from it and their number
  std::uint32_t warmup = 0;  ///< first steps, in which everything travels dense
  NonfinitePolicy policy = NonfinitePolicy::error;
  /// The host's optimizer may leave out a parameter that no rank used. What the others sent of it then waits for a
  /// step that uses it.
  bool drops_unused = false;
  std::uint64_t chunk_entries = 0;  ///< of methods that stream; 0: their own choice
};

/// Parameters that are worked on together, in the order in which they should lie so that nothing is copied.
struct Neighbours {
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> starts;  ///< of these, where a cut splits no chunk
  bool streams = false;               ///< may begin before the last of them is there
};

/// What a step, or all of them, did on this rank.
struct SetMetrics {
  Traffic traffic;
  std::uint64_t dense_bytes = 0;  ///< what float32 values of all parameters would be
  double select_seconds = 0.0;
  double wait_seconds = 0.0;  ///< from the last part's arrival to the end of the exchange
  double bits = 0.0;          ///< the first quantizer's; of the last step in a sum

  SetMetrics& operator+=(const SetMetrics& other);
};

/// The seed of a group's draws; the first group has the host's own. A method numbers its tensors by itself, so groups with
/// the same seed would round tensors of the same number by the same draws.
std::uint64_t seed_of_group(std::uint64_t seed, std::uint32_t group);

/// The gradient methods of a host: each parameter belongs to one of them, and their steps count together or not at all.
/// One thread at a time. Parameters are keyed by their index in registration order, so nothing depends on how they
/// arrive. The methods share one communicator: what they exchange early goes over duplicates of it, and the rest in the
/// order of the groups.
class MethodSet {
 public:
  /// Makes the methods. Collective: ranks that differ are all told where. Groups must cover every parameter once.
  MethodSet(std::vector<Tensor> parameters, std::vector<MethodGroup> groups, const MethodSetOptions& options,
            Communicator& communicator, Place& place);

  void begin();
  /// Each parameter whole and once in a step, in any order.
  void add(std::span<const TensorPart> parts);
  /// This rank did not use the parameter in this step; its part is there and zero.
  void mark_unused(std::uint32_t parameter) { used_[parameter] = std::byte{0}; }
  bool complete() const { return arrived_ == parameters_.size(); }
  /// Whether exchanges may be in flight, so that poll is worth while.
  bool streams() const;
  void poll();
  /// Waits for all. True: the step counts. False: a value was not finite, memory is as it was and the parts are zero;
  /// `report` false makes that the answer under either policy, else NonfinitePolicy::error throws NonfiniteValue, on
  /// all ranks alike.
  bool finish(bool report);
  bool is_open() const { return open_; }

  /// One a group.
  std::vector<Neighbours> neighbours() const;
  std::uint32_t step() const { return step_; }
  std::uint64_t skipped() const { return skipped_; }
  const SetMetrics& last() const { return last_; }
  const SetMetrics& total() const { return total_; }
  double residual_norm();

  State save() const;
  /// InvalidConfig for a state that this rank cannot go on from.
  void require_loadable(const State& state) const;
  /// Goes on from a state that require_loadable let through.
  void take(const State& state);
  /// Both, collective: ranks that load different steps, or of which one refuses what it is given, are all told, and
  /// nothing has changed on any. A caller that has no bytes says why in `refusal`.
  void load(View<const std::byte> saved, std::string refusal = {});

 private:
  struct Group {
    std::unique_ptr<GradientMethod> method;
    bool owes = false;  ///< keeps what it did not send, so that nothing of it may be lost
    std::vector<std::uint32_t> parameters;
    std::vector<TensorPart> batch;  ///< parts of one add
  };

  Group make_group(const MethodGroup& group);
  void require_cover(const std::vector<MethodGroup>& groups) const;
  std::span<Group> active();
  std::uint32_t group_count() const { return static_cast<std::uint32_t>(groups_.size()); }
  void add_carried(const TensorPart& part);
  std::vector<std::byte> used_anywhere();
  void carry(const std::vector<std::byte>& used);
  void count(std::span<const StepReport> reports);
  void save_carried(State& state) const;

  std::vector<Tensor> parameters_;
  std::vector<std::uint64_t> offsets_;
  MethodSetOptions options_;
  Communicator& communicator_;
  Place& place_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::uint32_t> index_in_group_;
  std::optional<Group> dense_;  ///< of all parameters, for the warm-up

  bool open_ = false;
  std::uint32_t step_ = 0;
  std::uint64_t skipped_ = 0;
  std::size_t arrived_ = 0;
  std::vector<View<float>> parts_;
  std::vector<std::byte> used_;
  Buffer<float> carried_;                  ///< aggregates that the host dropped, by parameter
  std::vector<std::uint32_t> is_carried_;  ///< 1: there is one
  SetMetrics last_;
  SetMetrics total_;
};

}  // namespace laconic::plugin
