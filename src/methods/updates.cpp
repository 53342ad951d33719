// Compressed updates: what travels is the step of each worker's own optimizer, with detached error feedback. Worker k,
// one round of H steps; at first e = u = 0, and x is the start point, the same on all ranks.
//   1. s = y = x − λ·e: the model holds y
//   2. H times: g = gradient at y; y = the local optimizer's step at y. Decoupled weight decay multiplies y, s and x by
//      the same factor and does not travel
//   3. p = (s − y) + e
//   4. c = C(p); e = ρ·(p − c)
//   5. Δ = mean of the workers' c
//   6. x = x − α·Δ, or with outer momentum μ (Nesterov's): u = μ·u + Δ; x = x − α·(Δ + μ·u)
//   7. y = x − λ·e
//   8. what is tested and saved: x − mean of e, or x
// A row chooses the numbers and two parts: the local step (1 to 3; local_step.h) and C with its exchange (4, 5;
// update_compression.h).
//   ef-rbgs, def, def-a  C random blocks, H = 1      Xu, Huang 2022; with SGD their steps to the letter
//   def-topk             C the largest entries, H = 1
//   diloco               C everything, outer momentum  Douillard et al. 2023
//   sparseloco           C the largest entries, ρ < 1  Sarfi et al. 2025: what stays acts as the outer momentum
// The error is in parameter units, so a change of η rescales nothing. x itself is kept, so that nothing drifts. Ranks
// meet in steps whose number + 1 is a multiple of H. A dropped meeting leaves everything as it was: what a worker moved by
// since the last meeting is part of the next one.

#include <utility>

#include "base/scratch_status.h"
#include "base/transfer.h"
#include "exchange/dense_sum.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "methods/local_step.h"
#include "methods/look_ahead.h"
#include "methods/makers.h"
#include "methods/model_base.h"
#include "methods/state_memory.h"
#include "methods/update_compression.h"
#include "methods/update_options.h"

namespace laconic {
namespace {

struct UpdateParts {
  std::unique_ptr<LocalStep> local;
  std::unique_ptr<UpdateCompression> compression;
};

class Updates : public ModelBase, private ChunkedStep {
 public:
  Updates(std::string name, const UpdateOptions& options, UpdateParts parts, Communicator& communicator, Place& place)
      : ModelBase(std::move(name), communicator, place, this), options_(options), parts_(std::move(parts)) {}

  bool streams() const override { return local().goes_by_chunk() && ModelBase::streams(); }

 private:
  void prepare() override;
  void regrouped() override { make_exchanges(); }
  void do_resize(Communicator* next) override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> owed() override;
  std::vector<View<float>> shared() override;
  bool has_late_memory() const override { return local().has_late_memory(); }
  void allocate_late_memory() override { local().allocate_late_memory(); }

  StepReport do_start(View<float> model) override;
  std::vector<AgreedField> common_fields(View<const float> model) override;
  bool takes_coefficients() const override { return local().takes_coefficients(); }
  bool takes_shrink() const override { return local().takes_shrink(); }
  void do_begin(const StepInput& input, View<const float> model) override;
  void do_add(View<float> gradient) override { add_to_exchange(gradient); }
  void do_add(std::span<const TensorPart> parts) override { add_to_exchange(parts); }
  void do_finish() override;
  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override;

  bool by_tensor() const override { return compression().by_tensor(); }
  std::uint64_t usual_chunk_entries(Device device) const override {
    return compression().usual_chunk_entries(device);
  }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;

  template <class Gradients>
  void add_to_exchange(const Gradients& gradients);
  bool streams_now() const { return meets_ && local().goes_by_chunk(); }
  void make_exchanges();
  Status meet_whole(const StepInput& input, View<const float> model, View<float> gradient);
  StepReport step_alone(const StepInput& input, View<float> model, View<float> gradient);
  void drop(const StepInput& input, const Status& status);
  void commit_meeting(View<float> model, View<const float> steps);
  double best_lambda(View<float> scratch, Traffic& traffic);

  LocalStep& local() const { return *parts_.local; }
  UpdateCompression& compression() const { return *parts_.compression; }

  UpdateOptions options_;
  UpdateParts parts_;
  UpdateMemory memory_;
  bool meets_ = false;  ///< this step
  bool newcomer_ = false;
  StepReport report_;
  std::unique_ptr<DenseSum> mean_error_;   ///< of the diagnosis
  std::unique_ptr<DenseSum> mean_square_;  ///< of the diagnosis
};

void Updates::prepare() {
  compression().prepare(place(), tensors());
  memory_.prepare(place(), parameters(), compression().leaves_error(), options_.outer.momentum != 0.0F);
  local().prepare(core(), memory_);
  make_exchanges();
}

void Updates::make_exchanges() {
  compression().make_exchanges(pipeline());
  local().make_exchanges();
  if (!options_.diagnose) return;
  mean_error_ = std::make_unique<DenseSum>(communicator(), place(), parameters());
  mean_square_ = std::make_unique<DenseSum>(communicator(), place(), 1);
}

std::vector<AgreedField> Updates::common_fields(View<const float> model) {
  if (phase() == Phase::made) return ModelBase::common_fields(model);
  return {checksum_field("x, the point without errors", memory_.point())};
}

StepReport Updates::do_start(View<float> model) {
  if (phase() == Phase::made) {
    copy(place(), model, memory_.point());
    local().begin_round(model);  // 1
  }
  if (phase() == Phase::resized) local().regroup(model, newcomer_);
  newcomer_ = false;
  return {};
}

void Updates::do_begin(const StepInput& input, View<const float> /*model*/) {
  meets_ = (std::uint64_t{input.key.step} + 1) % options_.local.period == 0;
  local().begin(input);
  report_ = {};
  if (!meets_) return;
  compression().begin(input.key);
  if (streams_now()) pipeline().begin(false, report_);
}

template <class Gradients>
void Updates::add_to_exchange(const Gradients& gradients) try {
  if (streams_now()) pipeline().add(gradients);
} catch (...) {
  local().take_back();
  throw;
}

void Updates::do_finish() try {
  if (streams_now()) pipeline().finish();
} catch (...) {
  local().take_back();
  throw;
}

StepReport Updates::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  if (!meets_) return step_alone(input, model, gradient);
  const Status status = streams_now() ? pipeline().status() : meet_whole(input, model, gradient);
  if (status.nonfinite != 0) {
    local().take_back();
    drop(input, status);
    return report_;
  }
  {
    const Stopwatch watch(report_.select_seconds);
    commit_meeting(model, gradient);
  }
  report_.rounds = 1;
  if (options_.diagnose) report_.extra = best_lambda(gradient, report_.traffic);
  if (options_.tells_rounds) tell_round(report_);
  return report_;
}

/// 2 to 5 for a step that needs the whole gradient.
Status Updates::meet_whole(const StepInput& input, View<const float> model, View<float> gradient) {
  const Status ahead = local().make_whole(model, gradient, report_);
  if (ahead.nonfinite != 0) return ahead;
  pipeline().begin(false, report_);
  pipeline().add(gradient);
  pipeline().finish();
  if (pipeline().status().nonfinite != 0) LookAhead::refuse_model(core(), pipeline().status(), input.key.step);
  return pipeline().status();
}

/// 2.
StepReport Updates::step_alone(const StepInput& input, View<float> model, View<float> gradient) {
  const Stopwatch watch(report_.select_seconds);
  const Status status = local().try_alone(model, gradient);
  if (status.nonfinite == 0) {
    local().keep_alone(model, gradient);
  } else {
    local().drop_alone(model);
    drop(input, status);
  }
  return report_;
}

void Updates::drop(const StepInput& input, const Status& status) {
  if (policy() == NonfinitePolicy::error) {
    if (!meets_) core().refuse_own_nonfinite(input.key.step);
    core().refuse_nonfinite(status, input.key.step);
  }
  ++core().skipped_steps;
  report_.skipped = true;
}

Exchange& Updates::start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) {
  View<float> step;
  {
    const Stopwatch watch(report.select_seconds);
    step = local().make_chunk(chunk, model(), gradient.floats(), status);  // 2, 3
  }
  return compression().start(chunk, step, memory_.errors(), status, report);  // 3, 4, 5
}

void Updates::finish_chunk(const Chunk& chunk, GradientView, StatusView, StepReport&) {
  compression().finish(chunk, memory_.errors());
}

void Updates::commit_meeting(View<float> model, View<const float> steps) {
  local().keep();
  compression().commit();
  memory_.take_next_error();
  if (options_.decay != 1.0F) scale(place(), options_.decay, memory_.error());  // 4
  compression().move(options_.outer, steps, memory_);                           // 6
  memory_.write_detached(place(), options_.local.lambda, model);                // 7
  local().begin_round(model);                                                   // 1
}

/// λ* = ‖mean of e_k‖² / mean of ‖e_k‖², the best detachment of this step. One dense average.
double Updates::best_lambda(View<float> scratch, Traffic& traffic) {
  const ScratchStatus status(place());
  const View<float> square = place().workspace().take<float>(1);
  const auto own = static_cast<float>(read_sum_of_squares(place(), memory_.error(), status.view()));
  copy_from_cpu<float>(place(), &own, square);
  mean_square_->start(square, status.view());
  mean_square_->finish();
  const auto mean_of_own = read_one<float>(place(), square);
  copy(place(), memory_.error(), scratch);
  mean_error_->start(scratch, status.view());
  mean_error_->finish();
  const double together = read_sum_of_squares(place(), scratch, status.view());
  traffic += mean_square_->traffic();
  traffic += mean_error_->traffic();
  return mean_of_own > 0.0F ? together / static_cast<double>(mean_of_own) : 0.0;
}

/// 8.
void Updates::do_read_out(View<const float> model, View<float> out) {
  if (!options_.subtracts_error) return copy(place(), memory_.point(), out);
  local().write_owed(model, out);
  average_over_ranks(communicator(), place(), out);
  subtract_scaled(place(), memory_.point(), 1.0F, out, out);
}

void Updates::save_memory(State& state) const {
  put_memory(state, "point", place(), memory_.point());
  if (compression().leaves_error()) put_memory(state, "residual", place(), memory_.error());
  if (!memory_.velocity().empty()) put_memory(state, "velocity", place(), memory_.velocity());
  compression().save(state);
  local().save(state);
}

void Updates::require_loadable_memory(const State& state) const {
  State expected;
  const std::vector<float> any(parameters());  // sizes alone are compared
  expected.put("point", View<const float>(any));
  if (compression().leaves_error()) expected.put("residual", View<const float>(any));
  if (!memory_.velocity().empty()) expected.put("velocity", View<const float>(any));
  compression().save(expected);
  local().put_expected(state, expected);
  state.require_entries_of(expected);
  compression().require_loadable(state);
  local().require_loadable(state);
}

void Updates::load_memory(const State& state) {
  get_memory(state, "point", place(), memory_.point());
  if (compression().leaves_error()) get_memory(state, "residual", place(), memory_.error());
  if (!memory_.velocity().empty()) get_memory(state, "velocity", place(), memory_.velocity());
  compression().load(state);
  local().load(state);
  newcomer_ = false;
}

void Updates::do_resize(Communicator* next) {
  newcomer_ = !core().has_run();
  core().resize(next);
}

std::vector<View<float>> Updates::owed() {
  std::vector<View<float>> views{memory_.error()};
  for (const View<float>& view : local().owed()) views.push_back(view);
  return views;
}

std::vector<View<float>> Updates::shared() {
  std::vector<View<float>> views{memory_.point()};
  if (!memory_.velocity().empty()) views.push_back(memory_.velocity());
  return views;
}

std::unique_ptr<ModelBase> made(const Settings& settings, UpdateParts parts, Communicator& communicator,
                                Place& place) {
  return std::make_unique<Updates>(settings.method(), update_options(settings), std::move(parts), communicator, place);
}

std::unique_ptr<LocalStep> optimizer_step(const Settings& settings, const OptimizerOptions& optimizer) {
  return make_optimizer_local_step(update_options(settings).local, local_optimizer(settings, optimizer));
}

}  // namespace

/// With SGD the step is added to the error directly, as in the paper, which no other part needs to do.
std::unique_ptr<ModelBase> make_def(const Settings& settings, const OptimizerOptions& optimizer,
                                    Communicator& communicator, Place& place) {
  const bool sgd = optimizer_kind(optimizer.name) == OptimizerKind::sgd;
  auto local = sgd ? make_sgd_local_step(update_options(settings).local, local_optimizer(settings, optimizer))
                   : optimizer_step(settings, optimizer);
  return made(settings, {std::move(local), make_block_compression(settings)}, communicator, place);
}

std::unique_ptr<ModelBase> make_largest_updates(const Settings& settings, const OptimizerOptions& optimizer,
                                                Communicator& communicator, Place& place) {
  return made(settings, {optimizer_step(settings, optimizer), make_largest_compression(settings)}, communicator, place);
}

std::unique_ptr<ModelBase> make_dense_updates(const Settings& settings, const OptimizerOptions& optimizer,
                                              Communicator& communicator, Place& place) {
  return made(settings, {optimizer_step(settings, optimizer), make_compression(settings)}, communicator, place);
}

}  // namespace laconic
