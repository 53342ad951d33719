// Dense averaging: what every paper compares with.
//   1. g_n: this worker's gradient
//   2. g = (g_0 + g_1 + ... ) / W, in rank order; fp16 and bf16 send 16-bit values both ways
// sgd and adam differ only in the optimizer that follows.

#include "exchange/dense_sum.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/makers.h"
#include "methods/gradient_base.h"
#include "methods/sum_options.h"

namespace laconic {
namespace {

class DenseMethod : public GradientBase {
 public:
  DenseMethod(std::string name, DenseSumOptions options, Communicator& communicator, Place& place)
      : GradientBase(std::move(name), communicator, place), options_(std::move(options)) {}

 private:
  bool by_tensor() const override { return true; }
  void prepare() override { regrouped(); }
  void regrouped() override {
    sums_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
      return std::make_unique<DenseSum>(channel, place(), chunk.size, options_);
    });
  }
  void save_memory(State&) const override {}
  void load_memory(const State&) override {}

  /// An engine sums floats.
  bool takes_16bit() const override { return options_.order == SumOrder::rank_order; }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport&) override {
    if (options_.order == SumOrder::engine) {
      // Its sums are made in place and have no flags: which tensor was not finite is known only before.
      core().note_nonfinite(chunk, gradient, Status{.nonfinite = is_finite(place(), gradient) ? 0U : 1U});
    }
    sums_[chunk.number]->start(gradient, status);
    return *sums_[chunk.number];
  }
  void commit() override {}

  DenseSumOptions options_;
  std::vector<std::unique_ptr<DenseSum>> sums_;
};

}  // namespace

std::unique_ptr<GradientBase> make_sgd(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<DenseMethod>(settings.method(), dense_sum_options(settings), communicator, place);
}

std::unique_ptr<GradientBase> make_fp16(const Settings& settings, Communicator& communicator, Place& place) {
  const DenseSumOptions options{.format = ValueFormat::f16};
  return std::make_unique<DenseMethod>(settings.method(), options, communicator, place);
}

std::unique_ptr<GradientBase> make_bf16(const Settings& settings, Communicator& communicator, Place& place) {
  const DenseSumOptions options{.format = ValueFormat::bf16};
  return std::make_unique<DenseMethod>(settings.method(), options, communicator, place);
}

}  // namespace laconic
