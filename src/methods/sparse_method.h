#pragma once

#include "methods/gradient_base.h"
#include "methods/residual.h"
#include "methods/settings.h"
#include "methods/sparse_compression.h"

namespace laconic {

/// What Top-k and RegTop-k share: a residual and the sparse compression.
class SparseMethod : public GradientBase {
 protected:
  SparseMethod(const Settings& settings, Selection selection, Communicator& communicator, Place& place);

  /// Starts a chunk's compression with the method's selection.
  virtual Exchange& compress(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                             StepReport& report) = 0;
  /// Receives what was sent of a chunk. RegTop-k stores its support here.
  virtual void remember(const ChunkSelection&, ConstSparseView /*sent*/) {}
  virtual void committed() {}

  void prepare() override;
  void regrouped() override { compression_.make_sums(pipeline()); }
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> owed() override { return {residual_.view()}; }

  bool by_tensor() const override { return compression_.by_tensor(); }
  std::uint64_t usual_chunk_entries(Device device) const override { return compression_.usual_chunk_entries(device); }
  bool takes_16bit() const override { return true; }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, GradientView aggregate, StatusView status, StepReport& report) override;
  void commit() override;

  SparseCompression& compression() { return compression_; }
  const Scopes& scopes() const { return compression_.scopes(); }

 private:
  SparseCompression compression_;
  Residual residual_;
};

}  // namespace laconic
