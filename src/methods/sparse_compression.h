#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/function_ref.h"
#include "exchange/sparse_sum.h"
#include "laconic/state.h"
#include "methods/pipeline.h"
#include "methods/scopes.h"
#include "methods/settings.h"

namespace laconic {

/// What is compressed of a chunk. p = values + residual is selected from.
struct ChunkFeedback {
  GradientView values;         ///< in: a gradient, or a difference of models; out: the mean of what all ranks sent
  View<const float> residual;  ///< what earlier steps did not send
  View<float> rest;            ///< out: p − what was sent, the residual of the next step if this one counts
  View<float> own_means{};     ///< out: the mean at each selected entry, if not empty
};

/// By magnitude, or by a function of the method.
enum class Selection : std::uint8_t { largest, own };

/// Sparse compression with error feedback and its exchange, for methods of any kind: a selection in each scope, values
/// coded as on the wire with the error left in the rest, and one sparse sum per chunk. The residual is the caller's.
/// Remembers the thresholds of the selections and the borders of the sums; a step that is not committed leaves them as
/// they were.
class SparseCompression {
 public:
  /// Selects in each scope of a chunk, as error_feedback_topk_by_scope does.
  using Select = FunctionRef<void(const ChunkFeedback& feedback, const ChunkSelection& selection,
                                  const Thresholds& thresholds, SparseView selected, StatusView status)>;

  /// Reads keep, scope, chunk, values and, if the method has them, route, return and union.
  explicit SparseCompression(const Settings& settings, Selection selection = Selection::largest);

  /// Whether the tensors of a chunk can be exchanged before the others have arrived.
  bool by_tensor() const;
  std::uint64_t usual_chunk_entries(Device device) const { return sparse_chunk_entries(device, keep_); }
  void prepare(Place& place, std::span<const Tensor> tensors);
  /// Makes the exchanges, for a new group of ranks as well.
  void make_sums(const ChunkPipeline& pipeline);

  /// Top-k by magnitude, or with Selection::own the given selection. The exchange writes the mean in place of
  /// feedback.values.
  Exchange& start(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status, StepReport& report);
  Exchange& start(const Chunk& chunk, const ChunkFeedback& feedback, const Select& select, StatusView status,
                  StepReport& report);
  /// Top-k by magnitude on one rank only: all ranks get what that one sent in place of feedback.values. Of the others
  /// nothing is read, and their rest is zero.
  Exchange& start_from(int leader, const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                       StepReport& report);
  /// The mean has arrived. Adds what the exchange left with this rank to `rest`, the chunk's part of it.
  void finish(const Chunk& chunk, View<float> rest);
  /// The step counts.
  void commit();

  const Scopes& scopes() const { return scopes_; }
  const ChunkSelection& selection(const Chunk& chunk) const { return sums_[chunk.number]; }
  /// A chunk's selected entries as they were sent.
  SparseView selected(const Chunk& chunk) const { return selected(sums_[chunk.number]); }

  void save(State& state) const;
  void require_loadable(const State& state) const;
  void load(const State& state);

 private:
  struct ChunkSum : ChunkSelection {
    std::vector<std::uint32_t> starts;  ///< where scopes begin in the chunk, if they are tensors and share magnitudes
    Buffer<std::uint32_t> device_starts;
    ScopeCuts cuts;
    std::unique_ptr<SparseSum> sum;
    std::vector<std::uint64_t> borders;  ///< these and the size of the union are from the last step that counted
    std::uint64_t last_union = SparseSum::kNoUnion;
  };
  struct SavedSum {
    std::vector<std::uint64_t> borders;
    std::uint64_t last_union;
  };
  std::vector<SavedSum> saved_sums(const State& state) const;

  View<float> thresholds() const { return thresholds_.view(scopes_.all().size()); }
  SparseView selected(const ChunkSum& chunk_sum) const;
  Thresholds thresholds_of(const ChunkSum& chunk_sum) const;
  void cut_scopes(ChunkSum& chunk_sum) const;
  void select_largest(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status, StepReport& report);
  Exchange& send(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status);
  void code_selected(const Chunk& chunk, View<float> rest, StatusView status);

  double keep_;
  Selection selection_;
  bool by_tensor_;
  std::uint64_t fixed_;  ///< entries of a scope if scope = chunk, otherwise 0
  SparseSumOptions options_;
  Place* place_ = nullptr;
  int rank_ = 0;
  Scopes scopes_;
  Buffer<float> thresholds_;       ///< of each scope in the last step; 0 starts cold
  Buffer<float> next_thresholds_;  ///< of this step
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> errors_;
  std::vector<ChunkSum> sums_;    ///< by chunk
  std::size_t most_chunks_ = 1;   ///< of any size: a saved state has room for them
};

}  // namespace laconic
