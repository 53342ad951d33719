#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/method.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "methods/memory.h"
#include "methods/pipeline.h"
#include "transport/agreement.h"

namespace laconic {

/// How far a method is: just made, loaded from a state, moved to another group, or running.
enum class Phase : std::uint8_t { made, loaded, resized, running };

/// What every method has, gradient or model: a name, the group of ranks, the place, the tensors, the saved memory, and
/// the report of values that are not finite.
class MethodCore {
 public:
  /// `chunked`: the method's chunked step, null if it has none.
  MethodCore(std::string name, Communicator& communicator, Place& place, MethodMemory& memory, ChunkedStep* chunked);

  const std::string& name() const { return name_; }
  Communicator& communicator() const { return *communicator_; }
  Place& place() const { return *place_; }
  int rank() const { return communicator_->rank(); }
  int ranks() const { return communicator_->size(); }

  // Tensors (core.cpp).
  void set_chunk_entries(std::uint64_t entries);
  std::uint64_t chunk_entries_set() const { return chunk_entries_; }
  void register_tensors(std::span<const Tensor> tensors);
  bool registered() const { return registered_; }
  void require_registered(const char* call) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t parameters() const { return parameters_; }
  /// The chunked step; null for a method without one, and before the tensors are registered.
  ChunkPipeline* pipeline() const { return pipeline_.get(); }

  // Memory (core_state.cpp, core_resize.cpp).
  /// The settings that a state must have been saved with.
  void set_settings(std::vector<SettingText> settings) { settings_ = std::move(settings); }
  State save() const;
  void require_loadable(const State& state) const;
  void load(const State& state);
  void resize(Communicator* next);
  double residual_norm() const;

  Phase phase() const { return phase_; }
  /// Whether this rank has started a run or loaded a state: in a resize, those that have not are newcomers.
  bool has_run() const { return phase_ != Phase::made; }
  void mark_running() { phase_ = Phase::running; }

  // Values that are not finite (core_nonfinite.cpp).
  static constexpr const char* kNonfiniteRemedy =
      "lower the learning rate, clip gradients, or drop such steps (nonfinite=\"skip\" in Python, --nonfinite skip, "
      "set_nonfinite_policy in C++)";
  NonfinitePolicy policy = NonfinitePolicy::error;
  std::uint64_t skipped_steps = 0;
  void forget_nonfinite() { bad_tensor_ = kNoTensor; }
  /// If status.nonfinite is set, notes which tensor of the chunk is not finite in `values`. The lowest tensor of a step
  /// counts. Call it before the aggregate replaces this worker's gradient.
  void note_nonfinite(const Chunk& chunk, ConstGradientView values, const Status& status);
  /// Discards what was noted before and checks all tensors.
  void locate_nonfinite(View<const float> values, const Status& status);
  /// For a non-finite value that all ranks know of: each throws NonfiniteValue with the rank, tensor and step. `what`
  /// names the values of the tensor that were checked. Collective.
  [[noreturn]] void refuse_nonfinite(const Status& status, std::uint32_t step, const std::string& what = "gradient",
                                     const std::string& remedy = kNonfiniteRemedy);
  /// For one that only this rank knows of, as in a local step: throws the same, and the other ranks' next wait fails
  /// with that message.
  [[noreturn]] void refuse_own_nonfinite(std::uint32_t step);

 private:
  static constexpr std::uint64_t kNoTensor = ~std::uint64_t{0};

  Communicator& reaching(Communicator& given);
  std::uint64_t full_chunk() const;
  void agree_on_chunks();
  AgreedField chunk_field() const;
  std::vector<AgreedField> agreed_fields() const;
  void put_identity(State& state) const;
  void require_same_identity(const State& state) const;
  void require_same_settings(const State& state) const;
  int meet_newcomers(Communicator& group);
  std::string nonfinite_message(std::size_t culprit, std::uint64_t tensor, std::uint64_t step, const std::string& what,
                                const std::string& remedy) const;

  std::string name_;
  std::vector<SettingText> settings_;
  std::unique_ptr<Communicator> staged_;  ///< around the caller's, for a place on a device
  Communicator* communicator_;
  Place* place_;
  MethodMemory& memory_;
  ChunkedStep* chunked_;
  std::vector<Tensor> tensors_;
  std::uint64_t parameters_ = 0;
  bool registered_ = false;
  Phase phase_ = Phase::made;
  std::uint64_t bad_tensor_ = kNoTensor;
  std::uint64_t chunk_entries_ = 0;  ///< set by the caller; 0: the method's usual number
  std::uint64_t usual_chunk_ = 0;    ///< that the ranks agreed on
  std::unique_ptr<ChunkPipeline> pipeline_;
};

}  // namespace laconic
