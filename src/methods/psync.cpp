// PSync (partial synchronization; CSER of Xie et al. 2020 with ratio 0 and period 1). Worker k:
//   1. x_k = x_k − the optimizer's own full step along g_k
//   2. one random block per tensor, the same on all workers: x_k = mean of the workers' x_k there
//   3. what is tested and saved: the mean of the workers' models
// No error is kept: what has not been averaged lives on in the workers' models, which differ. Nothing is owed, so a
// newcomer starts at the mean of the models: take read_out before a resize and go on from it on every rank. Momenta
// become their mean. In a dropped step neither model nor optimizer moves: both are tried on copies. A host's optimizer
// has no copy to try: workers first tell each other whether their gradients are finite, one number each, and drop the
// step before it is called. If it makes a model that is not finite, all workers throw, whatever the policy, since its
// step cannot be taken back.

#include <utility>

#include "base/buffer.h"
#include "base/scratch_status.h"
#include "exchange/dense_sum.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/look_ahead.h"
#include "methods/makers.h"
#include "methods/model_base.h"
#include "methods/optimizer.h"
#include "methods/random_blocks.h"
#include "methods/sum_options.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

class Psync : public ModelBase {
 public:
  Psync(const Settings& settings, const OptimizerOptions& optimizer, Communicator& communicator, Place& place)
      : ModelBase(settings.method(), communicator, place),
        options_(dense_sum_options(settings)),
        blocks_(settings.number("ratio"), settings.is("scope", "tensor")),
        optimizer_(optimizer),
        tried_optimizer_(optimizer) {}

 private:
  void prepare() override {
    blocks_.prepare(tensors());
    optimizer_.prepare(place(), tensors());
    tried_.reserve(place(), parameters());
    mean_.reserve(place(), blocks_.size());
    make_exchange();
  }
  void regrouped() override { make_exchange(); }
  void make_exchange() {
    sum_ = std::make_unique<BlockSum>(communicator(), place(), blocks_.size(), options_);
    if (optimizer_.is_host()) look_ahead_ = std::make_unique<LookAhead>(core());
  }
  StepReport dropped(const StepInput& input, const Status& status, StepReport report);
  void save_memory(State& state) const override { optimizer_.save(place(), state); }
  void require_loadable_memory(const State& state) const override {
    MethodMemory::require_loadable_memory(state);
    Optimizer::require_loadable(state);
  }
  void load_memory(const State& state) override { optimizer_.load(place(), state); }
  /// No residual; the optimizer's memory.
  std::vector<View<float>> owed() override {
    std::vector<View<float>> views{View<float>(nullptr, 0, place().device())};
    for (const View<float>& view : optimizer_.memory()) views.push_back(view);
    return views;
  }

  std::vector<double> shared_numbers() const override { return {static_cast<double>(optimizer_.steps())}; }
  void take_numbers(std::span<const double> numbers) override {
    optimizer_.set_steps(static_cast<std::uint64_t>(numbers[0]));
  }

  StepReport do_start(View<float> /*model*/) override { return {}; }
  /// Workers share the start point, and nothing afterwards.
  std::vector<AgreedField> common_fields(View<const float> model) override {
    return phase() == Phase::made ? ModelBase::common_fields(model) : std::vector<AgreedField>();
  }

  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override { average_models(model, out); }  // 3


  DenseSumOptions options_;
  RandomBlocks blocks_;
  Optimizer optimizer_;
  Optimizer tried_optimizer_;
  Buffer<float> tried_;
  Buffer<float> mean_;
  std::unique_ptr<BlockSum> sum_;
  std::unique_ptr<LookAhead> look_ahead_;  ///< for a host's optimizer
};

StepReport Psync::dropped(const StepInput& input, const Status& status, StepReport report) {
  if (policy() == NonfinitePolicy::error) core().refuse_nonfinite(status, input.key.step);
  ++core().skipped_steps;
  report.skipped = true;
  return report;
}

StepReport Psync::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  StepReport report;
  const ScratchStatus flags(place());
  const View<float> tried = tried_.view(parameters());
  const View<float> mean = mean_.view(blocks_.size());
  const auto blocks = blocks_.draw(input.key);
  const bool hosted = look_ahead_ != nullptr;
  if (hosted) {
    const Status ahead = look_ahead_->all_finite(gradient, report);
    if (ahead.nonfinite != 0) return dropped(input, ahead, report);
  }
  {
    const Stopwatch watch(report.select_seconds);
    tried_optimizer_.copy_from(place(), optimizer_);
    copy(place(), model, tried);
    tried_optimizer_.step(place(), input.learning_rate, gradient, tried);  // 1
    find_nonfinite(place(), tried, flags.view());
  }
  core().locate_nonfinite(hosted ? tried : gradient, flags.read());
  // An engine's sum has no flags: what is not finite outside the blocks must show inside them.
  if (!blocks.empty()) spoil_if_nonfinite(place(), tried.sub(blocks[0].offset + blocks[0].start, 1), flags.view());
  sum_->start(tried, blocks, mean, flags.view());  // 2
  sum_->finish();
  report.traffic += sum_->traffic();
  const Status status = flags.read();
  if (status.nonfinite != 0 && hosted) LookAhead::refuse_model(core(), status, input.key.step);
  if (status.nonfinite != 0) return dropped(input, status, report);
  std::swap(optimizer_, tried_optimizer_);
  copy(place(), tried, model);
  scatter_blocks(place(), mean, blocks, 0, model);
  report.rounds = 1;
  return report;
}

}  // namespace

std::unique_ptr<ModelBase> make_psync(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place) {
  return std::make_unique<Psync>(settings, optimizer, communicator, place);
}

}  // namespace laconic
