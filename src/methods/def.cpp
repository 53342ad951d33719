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

#include <algorithm>
#include <utility>

#include "base/buffer.h"
#include "exchange/dense_sum.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "methods/def_options.h"
#include "methods/makers.h"
#include "methods/random_blocks.h"
#include "methods/sparse_method.h"
#include "methods/stream.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

class Def : public ModelMethod {
 public:
  Def(std::string name, DefOptions options, RandomBlocks blocks, Communicator& communicator, Place& place)
      : ModelMethod(std::move(name), communicator, place), options_(std::move(options)), blocks_(std::move(blocks)) {}

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
  void do_add(std::span<const TensorPart> parts) override;
  void do_finish() override;
  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override;

  bool takes_coefficients() const override { return true; }
  bool by_tensor() const override { return blocks_.by_tensor(); }
  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override;

  /// Consecutive tensors that are moved alike.
  struct Stretch {
    Coefficients coefficients;
    std::uint64_t offset = 0;  ///< in the model
    std::uint64_t size = 0;
  };
  template <class Work>
  void each_stretch(std::uint32_t first_tensor, std::uint64_t offset, std::uint64_t size, Work&& work) const;

  void take_coefficients(const StepInput& input);
  void keep_momentum();
  void accumulate(const Stretch& stretch, View<float> gradient, StatusView status);
  Status accumulate_local(View<float> gradient);
  void take_back();
  void commit_local(View<float> model, View<const float> gradient);
  void move_local(const Stretch& stretch, View<const float> gradient, View<float> model);
  void commit_meeting(View<float> model);
  void write_detached(View<float> model);
  void write_local(View<float> model);
  double best_lambda(View<float> scratch, Traffic& traffic);

  /// A chunk's blocks, where their entries begin among those of all blocks, and their exchange.
  struct Share {
    std::size_t first_block = 0;
    std::size_t block_count = 0;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::unique_ptr<BlockSum> sum;
  };
  std::span<const Block> drawn(const Share& share) const {
    return drawn_.subspan(share.first_block, share.block_count);
  }

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
  std::vector<Coefficients> coefficients_;  ///< of each tensor in this step
  View<const float> model_;
  StepReport report_;
  /// Gradients that hold a stretch of the momentum as it was, and where that lies, until the step counts.
  std::vector<std::pair<std::uint64_t, View<float>>> kept_;
  Buffer<float> point_;
  Buffer<float> error_;
  Buffer<float> next_error_;
  Buffer<float> met_error_;  ///< as the last meeting left it, where there are steps between meetings
  Buffer<float> momentum_;
  Buffer<float> mean_;                     ///< of the blocks
  Buffer<float> left_;                     ///< what sending leaves of a block: nothing, or the rounding to 16 bits
  Buffer<float> moved_;                    ///< the blocks of x
  std::vector<Share> shares_;              ///< by chunk
  std::unique_ptr<DenseSum> mean_error_;   ///< of the diagnosis
  std::unique_ptr<DenseSum> mean_square_;  ///< of the diagnosis
};

void Def::prepare() {
  blocks_.prepare(tensors());
  for (Buffer<float>* buffer : {&point_, &error_, &next_error_}) buffer->reserve(parameters());
  for (Buffer<float>* buffer : {&mean_, &left_, &moved_}) buffer->reserve(blocks_.size());
  fill(place(), 0.0F, point());
  fill(place(), 0.0F, error());
  if (steps_locally()) met_error_.reserve(parameters());
  fill(place(), 0.0F, met_error());
  if (options_.momentum != 0.0F) keep_momentum();
  coefficients_.resize(tensors().size());
  fill(place(), 0.0F, left_.view(blocks_.size()));
  regrouped();
}

void Def::regrouped() {
  shares_ = stream().make_each([&](const Chunk& chunk, Communicator& lane) {
    Share share;
    for (const Block& block : blocks_.blocks()) {
      if (block.offset < chunk.offset) ++share.first_block, share.first += block.count;
      if (block.offset < chunk.offset || block.offset >= chunk.offset + chunk.size) continue;
      ++share.block_count;
      share.count += block.count;
    }
    share.sum = std::make_unique<BlockSum>(lane, place(), share.count, options_.sum);
    return share;
  });
  if (options_.diagnose) {
    mean_error_ = std::make_unique<DenseSum>(communicator(), place(), parameters());
    mean_square_ = std::make_unique<DenseSum>(communicator(), place(), 1);
  }
}

std::vector<AgreedField> Def::common_fields(View<const float> model) {
  if (stage() == Stage::made) return ModelMethod::common_fields(model);
  return {checksum_field("x, the point without errors", point())};
}

StepReport Def::do_start(View<float> model) {
  if (stage() == Stage::made) copy(place(), model, point());
  if (stage() == Stage::resized) write_local(model);
  return {};
}

void Def::do_begin(const StepInput& input, View<const float> model) {
  meets_ = (std::uint64_t{input.key.step} + 1) % options_.local_steps == 0;
  take_coefficients(input);
  model_ = model;
  report_ = {};
  if (!meets_) return;
  drawn_ = blocks_.draw(input.key);
  stream().begin(false, report_);
}

void Def::do_add(std::span<const TensorPart> parts) try {
  if (meets_) stream().add(parts);
} catch (...) {
  take_back();
  throw;
}

void Def::do_finish() try {
  if (meets_) stream().finish();
} catch (...) {
  take_back();
  throw;
}

StepReport Def::do_step(const StepInput& input, View<float> model, View<float> gradient) {
  const Status status = meets_ ? stream().status() : accumulate_local(gradient);
  if (status.nonfinite != 0) {
    take_back();
    if (policy() == NonfinitePolicy::error) {
      if (!meets_) refuse_own_nonfinite(input.key.step);
      refuse_nonfinite(status, input.key.step);
    }
    count_skipped();
    report_.skipped = true;
    return report_;
  }
  kept_.clear();
  const Stopwatch watch(report_.select_seconds);
  if (!meets_) {
    commit_local(model, gradient);
    return report_;
  }
  commit_meeting(model);
  report_.rounds = 1;
  if (options_.diagnose) report_.extra = best_lambda(gradient, report_.traffic);
  return report_;
}

void Def::take_coefficients(const StepInput& input) {
  if (input.tensors.empty()) {
    const Coefficients all{input.learning_rate, options_.momentum, options_.weight_decay, options_.nesterov};
    std::fill(coefficients_.begin(), coefficients_.end(), all);
  } else {
    std::copy(input.tensors.begin(), input.tensors.end(), coefficients_.begin());
  }
  const auto has_momentum = [](const Coefficients& each) { return each.momentum != 0.0F; };
  if (std::any_of(coefficients_.begin(), coefficients_.end(), has_momentum)) keep_momentum();
}

void Def::keep_momentum() {
  if (std::exchange(keeps_momentum_, true)) return;
  momentum_.reserve(parameters());
  fill(place(), 0.0F, momentum());
}

/// work(stretch) for the tensors from `first_tensor` on, which lie in a part of the model.
template <class Work>
void Def::each_stretch(std::uint32_t first_tensor, std::uint64_t offset, std::uint64_t size, Work&& work) const {
  const std::uint64_t end = offset + size;
  for (std::uint32_t tensor = first_tensor; offset < end;) {
    Stretch stretch{coefficients_[tensor], offset, 0};
    while (stretch.offset + stretch.size < end && coefficients_[tensor] == stretch.coefficients) {
      stretch.size += tensors()[tensor++].size;
    }
    offset += stretch.size;
    work(stretch);
  }
}

/// Of a stretch of the model: m into the momentum, while the gradient keeps the momentum as it was; p into the next
/// error. The step may yet be dropped, and then the momentum comes back from there.
void Def::accumulate(const Stretch& stretch, View<float> gradient, StatusView status) {
  const Stopwatch watch(report_.select_seconds);
  const auto here = [&](auto view) { return view.sub(stretch.offset, stretch.size); };
  const bool moves = stretch.coefficients.momentum != 0.0F;
  if (moves) kept_.emplace_back(stretch.offset, gradient);
  add_step_to_error(place(), stretch.coefficients, gradient,
                    {.model = here(model_),
                     .error = here(error()),
                     .next_error = here(next_error()),
                     .momentum = moves ? here(momentum()) : View<float>()},
                    status);
}

void Def::take_back() {
  for (const auto& [offset, before] : kept_) copy(place(), before, momentum().sub(offset, before.size()));
  kept_.clear();
}

Status Def::accumulate_local(View<float> gradient) {
  Status status;
  each_stretch(0, 0, parameters(), [&](const Stretch& stretch) {
    accumulate(stretch, gradient.sub(stretch.offset, stretch.size), view_of(status));
  });
  locate_nonfinite(next_error(), status);
  return status;
}

Exchange& Def::start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport&) {
  const Share& share = shares_[chunk.number];
  const View<float> p = next_error();
  const View<float> mean = mean_.view().sub(share.first, share.count);
  const auto blocks = drawn(share);
  each_stretch(chunk.first_tensor, chunk.offset, chunk.size, [&](const Stretch& stretch) {  // 1, 2, 3
    accumulate(stretch, gradient.sub(stretch.offset - chunk.offset, stretch.size), status);
  });
  note_nonfinite(chunk, p.sub(chunk.offset, chunk.size), status[0]);
  if (options_.sum.format != ValueFormat::f32) {
    gather_blocks(place(), p, blocks, 0, mean);
    round_through_16bit(place(), options_.sum.format, mean, left_.view().sub(share.first, share.count), status);
    scatter_blocks(place(), mean, blocks, 0, p);
  }
  // An engine's sum has no flags: what is not finite outside the blocks must show inside them.
  if (!blocks.empty()) spoil_if_nonfinite(place(), p.sub(blocks[0].offset + blocks[0].start, 1), status);
  share.sum->start(p, blocks, mean, status);  // 4, 5
  return *share.sum;
}

void Def::finish_chunk(const Chunk& chunk, View<float>, StatusView, StepReport&) {
  const Share& share = shares_[chunk.number];
  scatter_blocks(place(), left_.view().sub(share.first, share.count), drawn(share), 0, next_error());
}

void Def::commit_local(View<float> model, View<const float> gradient) {
  std::swap(error_, next_error_);
  each_stretch(0, 0, parameters(), [&](const Stretch& stretch) {
    move_local(stretch, gradient.sub(stretch.offset, stretch.size), model.sub(stretch.offset, stretch.size));
  });
}

/// model −= η·d, once accumulate has left the momentum as it was in the gradient.
void Def::move_local(const Stretch& stretch, View<const float> gradient, View<float> model) {
  const bool moves = stretch.coefficients.momentum != 0.0F;
  const View<const float> m = moves ? momentum().sub(stretch.offset, stretch.size) : View<float>();
  follow_step(place(), stretch.coefficients, gradient, m, model);
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
  Status status;
  double own = 0.0;
  double together = 0.0;
  sum_of_squares(place(), error(), View<double>(&own, 1), view_of(status));
  auto mean_of_own = static_cast<float>(own);
  mean_square_->start(View<float>(&mean_of_own, 1), view_of(status));
  mean_square_->finish();
  copy(place(), error(), scratch);
  mean_error_->start(scratch, view_of(status));
  mean_error_->finish();
  sum_of_squares(place(), scratch, View<double>(&together, 1), view_of(status));
  traffic += mean_square_->traffic();
  traffic += mean_error_->traffic();
  return mean_of_own > 0.0F ? together / static_cast<double>(mean_of_own) : 0.0;
}

void Def::do_read_out(View<const float> /*model*/, View<float> out) {
  if (!options_.subtracts_error) {
    copy(place(), point(), out);
    return;
  }
  Status status;
  copy(place(), error(), out);
  DenseSum mean(communicator(), place(), parameters());
  mean.start(out, view_of(status));
  mean.finish();
  subtract_scaled(place(), point(), 1.0F, out, out);
}

void Def::save_memory(State& state) const {
  state.put("point", View<const float>(point()));
  state.put("residual", View<const float>(error()));
  if (steps_locally()) state.put("residual of the last meeting", View<const float>(met_error()));
  state.put("momentum", View<const float>(momentum()));
}

/// A run has a momentum from the first step on that needs one, be it this run or the one that was saved.
void Def::require_loadable_memory(const State& state) const {
  State expected;
  expected.put("point", View<const float>(point()));
  expected.put("residual", View<const float>(error()));
  if (steps_locally()) expected.put("residual of the last meeting", View<const float>(met_error()));
  expected.put("momentum", state.size("momentum") > 0 ? View<const float>(error()) : View<const float>());
  state.require_entries_of(expected);
}

void Def::load_memory(const State& state) {
  state.get("point", point());
  state.get("residual", error());
  if (steps_locally()) state.get("residual of the last meeting", met_error());
  if (state.size("momentum") > 0) {
    keep_momentum();
    state.get("momentum", momentum());
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

std::unique_ptr<ModelMethod> made(const Settings& settings, DefOptions options, Communicator& communicator,
                                  Place& place) {
  RandomBlocks blocks(settings.number("ratio"), settings.is("scope", "tensor"));
  return std::make_unique<Def>(settings.method(), std::move(options), std::move(blocks), communicator, place);
}

}  // namespace

std::unique_ptr<ModelMethod> make_def(const Settings& settings, const OptimizerOptions& optimizer,
                                      Communicator& communicator, Place& place) {
  DefOptions options = def_options(settings, optimizer);
  options.subtracts_error = true;
  return made(settings, std::move(options), communicator, place);
}

std::unique_ptr<ModelMethod> make_def_a(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place) {
  return made(settings, def_options(settings, optimizer), communicator, place);
}

}  // namespace laconic
