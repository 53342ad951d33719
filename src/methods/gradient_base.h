#pragma once

#include "methods/method_base.h"

namespace laconic {

/// What gradient methods share: a step in chunks, which counts or is dropped on all ranks together.
class GradientBase : public MethodBase<GradientMethod>, protected ChunkedStep {
 public:
  StepReport reduce(StepKey key, GradientView gradient) final;
  void begin(StepKey key) final;
  StepReport finish() final;
  bool settle() final;
  StepReport abandon() final;

  /// The same without checks of the order of calls, for a method that is built on this one: call begin_exchange, add to
  /// exchange() and finish it, then conclude.
  void begin_exchange(StepKey key);
  ChunkPipeline& exchange() const { return pipeline(); }
  StepReport conclude();
  /// In place of conclude: the step does not count, and the memory is as it was.
  StepReport abandon_exchange();

 protected:
  GradientBase(std::string name, Communicator& communicator, Place& place)
      : MethodBase(std::move(name), communicator, place, this, "begin()", "finish()") {}

  /// Whether this step's first exchange needs all tensors although by_tensor() is true.
  virtual bool waits_for_all() const { return false; }
  /// Every value of every rank was finite: the step counts, and the second copy becomes the memory.
  virtual void commit() = 0;
  /// The step does not count: a method that is built on another makes that one forget it, too.
  virtual void roll_back() {}
  /// A step begins, whose key is known.
  virtual void on_begin() {}

  StepKey key() const { return key_; }
  /// Of the step that is open or was concluded last.
  StepReport& report() { return report_; }

 private:
  void add_to_step(std::span<const TensorPart> parts) final { pipeline().add(parts); }
  StepReport drop();

  bool settled_ = false;
  StepKey key_;
  StepReport report_;
};

}  // namespace laconic
