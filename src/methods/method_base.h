#pragma once

#include <string>
#include <utility>
#include <vector>

#include "methods/core.h"

namespace laconic {

/// What gradient and model methods have in common, implemented by the core. Face: GradientMethod or ModelMethod.
template <class Face>
class MethodBase : public Face, protected MethodMemory {
 public:
  const std::string& name() const final { return core_.name(); }
  void set_nonfinite_policy(NonfinitePolicy policy) final { core_.policy = policy; }
  std::uint64_t skipped_steps() const final { return core_.skipped_steps; }
  void set_chunk_entries(std::uint64_t entries) final { core_.set_chunk_entries(entries); }
  void register_tensors(std::span<const Tensor> tensors) final { core_.register_tensors(tensors); }

  bool streams() const override { return core_.pipeline() != nullptr && pipeline().chunks().size() > 1; }
  std::vector<std::uint32_t> chunk_starts() const override {
    std::vector<std::uint32_t> starts;
    if (core_.pipeline() == nullptr) return starts;  // no tensors yet, or a method that takes the gradient whole
    const auto chunks = pipeline().chunks();  // in the order of exchange
    for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) starts.push_back(chunk->first_tensor);
    return starts;
  }
  std::uint64_t poll() override { return core_.pipeline() != nullptr ? pipeline().poll() : 0; }

  State save() const final { return core_.save(); }
  void load(const State& state) final {
    require_between_steps();
    core_.load(state);
  }
  void require_loadable(const State& state) const final {
    require_between_steps();
    core_.require_loadable(state);
  }
  void resize(Communicator* next) override { core_.resize(next); }
  double residual_norm() override { return core_.residual_norm(); }

  // For the table, and for a method that is built on another.
  void set_settings(std::vector<SettingText> settings) { core_.set_settings(std::move(settings)); }
  void mark_running() { core_.mark_running(); }

 protected:
  MethodBase(std::string name, Communicator& communicator, Place& place, ChunkedStep* chunked)
      : core_(std::move(name), communicator, place, *this, chunked) {}
  ~MethodBase() override = default;

  /// Throws InvalidConfig within a step.
  virtual void require_between_steps() const = 0;

  MethodCore& core() { return core_; }
  ChunkPipeline& pipeline() const { return *core_.pipeline(); }
  Communicator& communicator() const { return core_.communicator(); }
  Place& place() const { return core_.place(); }
  int rank() const { return core_.rank(); }
  int ranks() const { return core_.ranks(); }
  const std::vector<Tensor>& tensors() const { return core_.tensors(); }
  std::uint64_t parameters() const { return core_.parameters(); }
  Stage stage() const { return core_.stage(); }
  NonfinitePolicy policy() const { return core_.policy; }

 private:
  MethodCore core_;
};

}  // namespace laconic
