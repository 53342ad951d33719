// Error feedback with random blocks: EF (ef-rbgs), DEF and DEF-A (Xu, Huang 2022). Worker k, step t; e = m = 0 at
// first.
//   1. g = gradient at the detached point x − λ·e_k, plus weight_decay times that point
//   2. m_k = β·m_k + g
//   3. p = η·d + e_k; the direction d is m_k, or with Nesterov's momentum, which the paper has not, g + β·m_k
//   4. e_k = p − C(p); C keeps one random block a tensor, the same on all workers
//   5. everyone: x = x − mean of C(p_k)
//   6. what is tested and saved: DEF x − mean of e_k, DEF-A and EF x
// EF is λ = 0. The error is in parameter units, so a change of η rescales nothing. Between steps the model holds the
// detached point; x itself is kept here, so that nothing drifts.
// local_steps = H: workers meet (4, 5) only in steps whose number + 1 is a multiple of H. Between them the model moves
// by −η·d, which is added to e, so that e is all that the worker owes; the meeting sets the model to x − λ·e again. The
// error of the last meeting, e_0, is kept: the model is x − λ·e_0 − (e − e_0), after a resize with the mean of each.

#include <utility>

#include "base/buffer.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "exchange/dense_sum.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "methods/coefficient_runs.h"
#include "methods/def_options.h"
#include "methods/makers.h"
#include "methods/model_base.h"
#include "methods/momentum_undo.h"
#include "methods/random_blocks.h"
#include "methods/state_memory.h"

namespace laconic {
namespace {

class Def : public ModelBase, private ChunkedStep {
 public:
  Def(std::string name, DefOptions options, RandomBlocks blocks, Communicator& communicator, Place& place)
      : ModelBase(std::move(name), communicator, place, this), options_(std::move(options)), blocks_(std::move(blocks)) {}

 private:
  void prepare() override;
  void regrouped() override;
  void save_memory(State& state) const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  std::vector<View<float>> owed() override;
  std::vector<View<float>> shared() override { return {point()}; }
  bool has_late_memory() const override { return keeps_momentum_; }
  void allocate_late_memory() override { keep_momentum(); }

  StepReport do_start(View<float> model) override;
  std::vector<AgreedField> common_fields(View<const float> model) override;
  void do_begin(const StepInput& input, View<const float> model) override;
  void do_add(View<float> gradient) override { add_to_exchange(gradient); }
  void do_add(std::span<const TensorPart> parts) override { add_to_exchange(parts); }
  void do_finish() override;
  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override;

  bool takes_coefficients() const override { return true; }
  bool by_tensor() const override { return blocks_.by_tensor(); }
  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;

  template <class Gradients>
  void add_to_exchange(const Gradients& gradients);
  void take_coefficients(const StepInput& input);
  void keep_momentum();
  void accumulate(const CoefficientRun& run, View<float> gradient, StatusView status);
  Status accumulate_local(View<float> gradient);
  void take_back() { undo_.take_back(place(), momentum()); }
  StepReport drop(const StepInput& input, const Status& status);
  void commit_local(View<float> model, View<const float> gradient);
  void move_local(const CoefficientRun& run, View<const float> gradient, View<float> model);
  void commit_meeting(View<float> model);
  void write_detached(View<float> model);
  void write_local(View<float> model);
  double best_lambda(View<float> scratch, Traffic& traffic);

  /// A chunk's blocks, where their entries begin among those of all blocks, and their exchange.
  struct ChunkSum {
    std::size_t first_block = 0;
    std::size_t block_count = 0;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::unique_ptr<BlockSum> sum;
  };
  std::span<const Block> drawn(const ChunkSum& chunk_sum) const {
    return drawn_.subspan(chunk_sum.first_block, chunk_sum.block_count);
  }

  View<float> no_values() const { return momentum_.view(0); }
  View<float> point() const { return point_.view(parameters()); }
  View<float> error() const { return error_.view(parameters()); }
  View<float> next_error() const { return next_error_.view(parameters()); }
  View<float> momentum() const { return momentum_.view(keeps_momentum_ ? parameters() : 0); }
  bool steps_locally() const { return options_.local_steps > 1; }
  View<float> met_error() const { return met_error_.view(steps_locally() ? parameters() : 0); }

  DefOptions options_;
  RandomBlocks blocks_;
  std::span<const Block> drawn_;
  bool meets_ = false;                      ///< this step
  bool keeps_momentum_ = false;             ///< from the first step on that has one
  CoefficientRuns coefficients_;            ///< of this step
  MomentumUndo undo_;                       ///< of this step
  StepReport report_;
  Buffer<float> point_;
  Buffer<float> error_;
  Buffer<float> next_error_;
  Buffer<float> met_error_;  ///< as the last meeting left it, where there are steps between meetings
  Buffer<float> momentum_;
  Buffer<float> mean_;                     ///< of the blocks
  Buffer<float> left_;                     ///< what sending leaves of a block: nothing, or the rounding to 16 bits
  Buffer<float> moved_;                    ///< the blocks of x
  std::vector<ChunkSum> sums_;              ///< by chunk
  std::unique_ptr<DenseSum> mean_error_;   ///< of the diagnosis
  std::unique_ptr<DenseSum> mean_square_;  ///< of the diagnosis
};

void Def::prepare() {
  blocks_.prepare(tensors());
  for (Buffer<float>* buffer : {&point_, &error_, &next_error_}) buffer->reserve(place(), parameters());
  for (Buffer<float>* buffer : {&mean_, &left_, &moved_}) buffer->reserve(place(), blocks_.size());
  fill(place(), 0.0F, point());
  fill(place(), 0.0F, error());
  met_error_.reserve(place(), steps_locally() ? parameters() : 0);
  momentum_.reserve(place(), 0);  // so that an empty one lies on the place's device too
  fill(place(), 0.0F, met_error());
  if (options_.momentum != 0.0F) keep_momentum();
  coefficients_.prepare(tensors());
  fill(place(), 0.0F, left_.view(blocks_.size()));
  regrouped();
}

void Def::regrouped() {
  sums_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
    ChunkSum chunk_sum;
    for (const Block& block : blocks_.blocks()) {
      if (block.offset < chunk.offset) ++chunk_sum.first_block, chunk_sum.first += block.count;
      if (block.offset < chunk.offset || block.offset >= chunk.offset + chunk.size) continue;
      ++chunk_sum.block_count;
      chunk_sum.count += block.count;
    }
    chunk_sum.sum = std::make_unique<BlockSum>(channel, place(), chunk_sum.count, options_.sum);
    return chunk_sum;
  });
  if (options_.diagnose) {
    mean_error_ = std::make_unique<DenseSum>(communicator(), place(), parameters());
    mean_square_ = std::make_unique<DenseSum>(communicator(), place(), 1);
  }
}

std::vector<AgreedField> Def::common_fields(View<const float> model) {
  if (phase() == Phase::made) return ModelBase::common_fields(model);
  return {checksum_field("x, the point without errors", point())};
}

StepReport Def::do_start(View<float> model) {
  if (phase() == Phase::made) copy(place(), model, point());
  if (phase() == Phase::resized) write_local(model);
  return {};
}

void Def::do_begin(const StepInput& input, View<const float> /*model*/) {
  meets_ = (std::uint64_t{input.key.step} + 1) % options_.local_steps == 0;
  take_coefficients(input);
  report_ = {};
  if (!meets_) return;
  drawn_ = blocks_.draw(input.key);
  pipeline().begin(false, report_);
}

template <class Gradients>
void Def::add_to_exchange(const Gradients& gradients) try {
  if (meets_) pipeline().add(gradients);
} catch (...) {
  take_back();
  throw;
}

void Def::do_finish() try {
  if (meets_) pipeline().finish();
} catch (...) {
  take_back();
  throw;
}

StepReport Def::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  const Status status = meets_ ? pipeline().status() : accumulate_local(gradient);  // 1, 2, 3
  if (status.nonfinite != 0) return drop(input, status);
  undo_.forget();
  const Stopwatch watch(report_.select_seconds);
  if (!meets_) {
    commit_local(model, gradient);
    return report_;
  }
  commit_meeting(model);  // 5
  report_.rounds = 1;
  if (options_.diagnose) report_.extra = best_lambda(gradient, report_.traffic);
  return report_;
}

StepReport Def::drop(const StepInput& input, const Status& status) {
  take_back();
  if (policy() == NonfinitePolicy::error) {
    if (!meets_) core().refuse_own_nonfinite(input.key.step);
    core().refuse_nonfinite(status, input.key.step);
  }
  ++core().skipped_steps;
  report_.skipped = true;
  return report_;
}

void Def::take_coefficients(const StepInput& input) {
  if (input.tensors.empty()) {
    coefficients_.set({input.learning_rate, options_.momentum, options_.weight_decay, options_.nesterov});
  } else {
    coefficients_.set(input.tensors);
  }
  if (coefficients_.any_momentum()) keep_momentum();
}

void Def::keep_momentum() {
  if (std::exchange(keeps_momentum_, true)) return;
  momentum_.reserve(place(), parameters());
  fill(place(), 0.0F, momentum());
}

/// 1, 2 and 3 for a run of tensors: m goes into the momentum, p into the next error.
void Def::accumulate(const CoefficientRun& run, View<float> gradient, StatusView status) {
  const Stopwatch watch(report_.select_seconds);
  const auto here = [&](auto view) { return view.sub(run.offset, run.size); };
  const bool moves = run.coefficients.momentum != 0.0F;
  add_step_to_error(place(), run.coefficients, gradient,
                    {.model = here(model()),
                     .error = here(error()),
                     .next_error = here(next_error()),
                     .momentum = moves ? here(momentum()) : no_values()},
                    status);
  if (moves) undo_.note(run.offset, gradient);  // which holds the momentum as it was
}

Status Def::accumulate_local(View<float> gradient) {
  const ScratchStatus flags(place());
  coefficients_.for_each(0, 0, parameters(), [&](const CoefficientRun& run) {
    accumulate(run, gradient.sub(run.offset, run.size), flags.view());
  });
  const Status status = flags.read();
  core().locate_nonfinite(next_error(), status);
  return status;
}

Exchange& Def::start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport&) {
  const ChunkSum& chunk_sum = sums_[chunk.number];
  const View<float> p = next_error();
  const View<float> mean = mean_.view().sub(chunk_sum.first, chunk_sum.count);
  const auto blocks = drawn(chunk_sum);
  coefficients_.for_each(chunk.first_tensor, chunk.offset, chunk.size, [&](const CoefficientRun& run) {
    accumulate(run, gradient.sub(run.offset - chunk.offset, run.size), status);  // 1, 2, 3
  });
  core().note_nonfinite(chunk, p.sub(chunk.offset, chunk.size), read_status(place(), status));
  if (options_.sum.format != ValueFormat::f32) {
    gather_blocks(place(), p, blocks, 0, mean);
    round_through_16bit(place(), options_.sum.format, mean, left_.view().sub(chunk_sum.first, chunk_sum.count), status);
    scatter_blocks(place(), mean, blocks, 0, p);
  }
  // An engine's sum has no flags: what is not finite outside the blocks must show inside them.
  if (!blocks.empty()) spoil_if_nonfinite(place(), p.sub(blocks[0].offset + blocks[0].start, 1), status);
  chunk_sum.sum->start(p, blocks, mean, status);  // 4
  return *chunk_sum.sum;
}

/// 4: e = p − C(p).
void Def::finish_chunk(const Chunk& chunk, View<float>, StatusView, StepReport&) {
  const ChunkSum& chunk_sum = sums_[chunk.number];
  scatter_blocks(place(), left_.view().sub(chunk_sum.first, chunk_sum.count), drawn(chunk_sum), 0, next_error());
}

void Def::commit_local(View<float> model, View<const float> gradient) {
  std::swap(error_, next_error_);
  coefficients_.for_each(0, 0, parameters(), [&](const CoefficientRun& run) {
    move_local(run, gradient.sub(run.offset, run.size), model.sub(run.offset, run.size));
  });
}

/// model −= η·d, once accumulate has left the momentum as it was in the gradient.
void Def::move_local(const CoefficientRun& run, View<const float> gradient, View<float> model) {
  const bool moves = run.coefficients.momentum != 0.0F;
  const View<const float> m = moves ? momentum().sub(run.offset, run.size) : no_values();
  follow_step(place(), run.coefficients, gradient, m, model);
}

void Def::commit_meeting(View<float> model) {
  std::swap(error_, next_error_);
  const View<float> moved = moved_.view(blocks_.size());
  gather_blocks(place(), point(), drawn_, 0, moved);
  axpy(place(), -1.0F, mean_.view(blocks_.size()), moved);
  scatter_blocks(place(), moved, drawn_, 0, point());
  if (steps_locally()) copy(place(), error(), met_error());
  write_detached(model);
}

/// model = x − λ·e.
void Def::write_detached(View<float> model) {
  if (options_.lambda == 0.0F) return copy(place(), point(), model);
  subtract_scaled(place(), point(), options_.lambda, error(), model);
}

/// model = x − λ·e_0 − (e − e_0), which right after a meeting is the detached point.
void Def::write_local(View<float> model) {
  if (!steps_locally()) return write_detached(model);
  subtract_scaled(place(), point(), options_.lambda, met_error(), model);
  subtract_difference(place(), error(), met_error(), model);
}

/// λ* = ‖mean of e_k‖² / mean of ‖e_k‖², the best detachment of this step. One dense average.
double Def::best_lambda(View<float> scratch, Traffic& traffic) {
  const ScratchStatus status(place());
  const View<float> square = place().workspace().take<float>(1);
  const auto own = static_cast<float>(read_sum_of_squares(place(), error(), status.view()));
  copy_from_host<float>(place(), &own, square);
  mean_square_->start(square, status.view());
  mean_square_->finish();
  const auto mean_of_own = read_one<float>(place(), square);
  copy(place(), error(), scratch);
  mean_error_->start(scratch, status.view());
  mean_error_->finish();
  const double together = read_sum_of_squares(place(), scratch, status.view());
  traffic += mean_square_->traffic();
  traffic += mean_error_->traffic();
  return mean_of_own > 0.0F ? together / static_cast<double>(mean_of_own) : 0.0;
}

/// 6.
void Def::do_read_out(View<const float> /*model*/, View<float> out) {
  if (!options_.subtracts_error) {
    copy(place(), point(), out);
    return;
  }
  copy(place(), error(), out);
  average_over_ranks(communicator(), place(), out);
  subtract_scaled(place(), point(), 1.0F, out, out);
}

void Def::save_memory(State& state) const {
  put_memory(state, "point", place(), point());
  put_memory(state, "residual", place(), error());
  if (steps_locally()) put_memory(state, "residual of the last meeting", place(), met_error());
  put_memory(state, "momentum", place(), momentum());
}

/// A run has a momentum from the first step on that needs one, be it this run or the one that was saved.
void Def::require_loadable_memory(const State& state) const {
  State expected;
  const std::vector<float> any(parameters());  // sizes alone are compared
  expected.put("point", View<const float>(any));
  expected.put("residual", View<const float>(any));
  if (steps_locally()) expected.put("residual of the last meeting", View<const float>(any));
  expected.put("momentum", state.size("momentum") > 0 ? View<const float>(any) : View<const float>());
  state.require_entries_of(expected);
}

void Def::load_memory(const State& state) {
  get_memory(state, "point", place(), point());
  get_memory(state, "residual", place(), error());
  if (steps_locally()) get_memory(state, "residual of the last meeting", place(), met_error());
  if (state.size("momentum") > 0) {
    keep_momentum();
    get_memory(state, "momentum", place(), momentum());
  } else {
    fill(place(), 0.0F, momentum());
  }
}

std::vector<View<float>> Def::owed() {
  std::vector<View<float>> views{error()};
  if (steps_locally()) views.push_back(met_error());
  if (keeps_momentum_) views.push_back(momentum());
  return views;
}

std::unique_ptr<ModelBase> made(const Settings& settings, DefOptions options, Communicator& communicator,
                                  Place& place) {
  RandomBlocks blocks(settings.number("ratio"), settings.is("scope", "tensor"));
  return std::make_unique<Def>(settings.method(), std::move(options), std::move(blocks), communicator, place);
}

}  // namespace

std::unique_ptr<ModelBase> make_def(const Settings& settings, const OptimizerOptions& optimizer,
                                      Communicator& communicator, Place& place) {
  DefOptions options = def_options(settings, optimizer);
  options.subtracts_error = true;
  return made(settings, std::move(options), communicator, place);
}

std::unique_ptr<ModelBase> make_def_a(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place) {
  return made(settings, def_options(settings, optimizer), communicator, place);
}

}  // namespace laconic
