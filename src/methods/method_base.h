#pragma once

#include <string>
#include <utility>
#include <vector>

#include "methods/core.h"
#include "methods/open_step.h"

namespace laconic {

/// What gradient and model methods have in common, implemented by the core. Interface: GradientMethod or ModelMethod.
template <class Interface>
class MethodBase : public Interface, protected MethodMemory {
 public:
  const std::string& name() const final { return core_.name(); }
  void set_nonfinite_policy(NonfinitePolicy policy) final { core_.policy = policy; }
  std::uint64_t skipped_steps() const final { return core_.skipped_steps; }
  void set_chunk_entries(std::uint64_t entries) final { core_.set_chunk_entries(entries); }
  void register_tensors(std::span<const Tensor> tensors) final { core_.register_tensors(tensors); }

  bool streams() const override { return core_.pipeline() != nullptr && pipeline().chunks().size() > 1; }
  std::vector<std::uint32_t> chunk_starts() const override {
    std::vector<std::uint32_t> starts;
    if (!core_.registered()) return starts;
    if (core_.pipeline() == nullptr) return {0};  // a method that takes the gradient whole
    const auto chunks = pipeline().chunks();  // in the order of exchange
    for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) starts.push_back(chunk->first_tensor);
    return starts;
  }
  std::uint64_t poll() override { return core_.pipeline() != nullptr ? pipeline().poll() : 0; }

  void add(std::span<const TensorPart> parts) final {
    step_.require_open("add()");
    step_.take(tensors(), parts);
    try {
      add_to_step(parts);
    } catch (...) {
      step_.close();  // a failure leaves no step behind
      throw;
    }
  }

  State save() const final {
    step_.require_closed("save()");
    return core_.save();
  }
  void load(const State& state) final {
    step_.require_loadable();
    core_.load(state);
  }
  void require_loadable(const State& state) const final {
    step_.require_loadable();
    core_.require_loadable(state);
  }
  void resize(Communicator* next) final {
    step_.require_closed("resize()");
    core_.require_registered("resize()");
    do_resize(next);
  }
  double residual_norm() override { return core_.residual_norm(); }

  // For the table, and for a method that is built on another.
  void set_settings(std::vector<SettingText> settings) { core_.set_settings(std::move(settings)); }
  void mark_running() { core_.mark_running(); }

 protected:
  /// `begin`, `finish`: the functions that open and close a step, for messages.
  MethodBase(std::string name, Communicator& communicator, Place& place, ChunkedStep* chunked, const char* begin,
             const char* finish)
      : core_(std::move(name), communicator, place, *this, chunked), step_(core_.name(), begin, finish) {}
  ~MethodBase() override = default;

  /// Tensors of the step that have arrived, each for the first time.
  virtual void add_to_step(std::span<const TensorPart> parts) = 0;
  virtual void do_resize(Communicator* next) { core_.resize(next); }

  MethodCore& core() { return core_; }
  OpenStep& open_step() { return step_; }
  ChunkPipeline& pipeline() const { return *core_.pipeline(); }
  Communicator& communicator() const { return core_.communicator(); }
  Place& place() const { return core_.place(); }
  int rank() const { return core_.rank(); }
  int ranks() const { return core_.ranks(); }
  const std::vector<Tensor>& tensors() const { return core_.tensors(); }
  std::uint64_t parameters() const { return core_.parameters(); }
  Phase phase() const { return core_.phase(); }
  NonfinitePolicy policy() const { return core_.policy; }

 private:
  MethodCore core_;
  OpenStep step_;
};

}  // namespace laconic
