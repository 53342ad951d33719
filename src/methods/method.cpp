#include "laconic/method.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "exchange/dense_sum.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "methods/stream.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

/// Whoever was there before tells the newcomers: the lowest such rank. Collective.
int lowest_old_rank(Communicator& communicator, bool newcomer) {
  std::vector<float> ran_before(static_cast<std::size_t>(communicator.size()));
  const float mine = newcomer ? 0.0F : 1.0F;
  communicator.all_gather(as_bytes(View<const float>(&mine, 1)), as_writable_bytes(View<float>(ran_before))).wait();
  const auto first = std::find(ran_before.begin(), ran_before.end(), 1.0F);
  if (first == ran_before.end()) {
    throw InvalidConfig("resize found no rank that ran before: start a new run instead");
  }
  return static_cast<int>(first - ran_before.begin());
}

/// A flat view as parts.
void split(std::span<const Tensor> tensors, View<float> flat, std::vector<TensorPart>& parts) {
  parts.clear();
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    parts.push_back({i, flat.sub(offset, tensors[i].size)});
    offset += tensors[i].size;
  }
}

}  // namespace

Method::Method(std::string name, Communicator& communicator, Place& place)
    : name_(std::move(name)), communicator_(&communicator), place_(&place) {}

Method::~Method() = default;

void Method::register_tensors(std::span<const Tensor> tensors) {
  if (registered_) {
    throw InvalidConfig(name_ + " was told its tensors already: make a new method for another model");
  }
  tensors_.assign(tensors.begin(), tensors.end());
  require_agreement(*communicator_, agreed_fields());
  for (const Tensor& tensor : tensors_) parameters_ += tensor.size;
  registered_ = true;
  stream_ = std::make_unique<ChunkStream>(*this, by_tensor() ? chunk_entries() : 0);
  stream_->join(*communicator_);
  joined_ = std::make_unique<JoinedParts>(*this, tensors_);
  prepare();
}

void Method::set_chunk_entries(std::uint64_t entries) {
  if (registered_) throw InvalidConfig(name_ + ": set_chunk_entries() after register_tensors(): set it before");
  if (entries == 0) throw InvalidConfig(name_ + ": a chunk must have 1 entry or more, got 0");
  chunk_entries_ = entries;
}

bool Method::streams() const { return registered_ && stream_->chunks().size() > 1; }

std::vector<std::uint32_t> Method::chunk_starts() const {
  std::vector<std::uint32_t> starts;
  if (!registered_) return starts;
  for (const Chunk& chunk : stream_->chunks()) starts.push_back(chunk.first_tensor);
  std::reverse(starts.begin(), starts.end());
  return starts;
}

std::uint64_t Method::poll() { return registered_ ? stream_->poll() : 0; }

Exchange& Method::start_chunk(const Chunk&, View<float>, StatusView, StepReport&) {
  throw BrokenInvariant(name_ + " has no step in chunks. This is a bug in Laconic; please report it.");
}

State Method::save() const {
  require_savable();
  State state;
  state.put("method " + name_, 1.0);
  state.put("rank", static_cast<double>(rank()));
  state.put("ranks", static_cast<double>(ranks()));
  state.put("parameters", static_cast<double>(parameters_));
  save_memory(state);
  return state;
}

void Method::require_loadable(const State& state) const {
  const auto refuse = [](const std::string& what) { throw InvalidConfig("saved state " + what); };
  if (!registered_) refuse("needs registered tensors before it is loaded: call register_tensors first");
  if (!state.has("method " + name_))
    refuse("is of another method than " + name_ + ": load it into the method that saved it");
  const auto expect = [&](const char* field, double mine, const char* remedy) {
    if (state.number(field) == mine) return;
    refuse("has " + std::string(field) + " = " + std::to_string(static_cast<std::uint64_t>(state.number(field))) +
           ", this is " + std::to_string(static_cast<std::uint64_t>(mine)) + ": " + remedy);
  };
  expect("ranks", ranks(), "load it on as many ranks, then resize");
  expect("rank", rank(), "each rank loads its own");
  expect("parameters", static_cast<double>(parameters_), "load it for the same model");
  require_loadable_memory(state);
}

void Method::require_loadable_memory(const State& state) const {
  State mine;
  save_memory(mine);
  state.require_entries_of(mine);
}

void Method::load(const State& state) {
  require_loadable(state);
  load_memory(state);
  ran_ = true;
}

void Method::resize(Communicator* next) {
  LACONIC_CHECK(registered_ == true);
  if (ran_) {
    for (const View<float>& view : owed()) {
      DenseSum mean(*communicator_, *place_, view.size());
      Status status;
      mean.start(view, view_of(status));
      mean.finish();
    }
  }
  stream_->leave();
  if (next == nullptr) return;
  communicator_ = next;
  require_agreement(*next, agreed_fields());
  stream_->join(*next);
  const int teller = lowest_old_rank(*next, !ran_);
  for (const auto& views : {owed(), shared()}) {
    for (const View<float>& view : views) next->broadcast(as_writable_bytes(view), teller).wait();
  }
  ran_ = true;
  regrouped();
}

std::vector<AgreedField> Method::agreed_fields() const {
  std::vector<AgreedField> fields{{"method", name_}, {"number of tensors", std::to_string(tensors_.size())}};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    fields.push_back({"tensor " + std::to_string(i), tensors_[i].name + " of " + std::to_string(tensors_[i].size)});
  }
  if (by_tensor()) fields.push_back({"entries of a chunk", std::to_string(chunk_entries())});
  return fields;
}

double Method::residual_norm() {
  const auto memory = owed();
  if (memory.empty()) return 0.0;
  Status status;
  double squares = 0.0;
  sum_of_squares(*place_, memory.front(), View<double>(&squares, 1), view_of(status));
  return std::sqrt(squares);
}

void Method::locate_nonfinite(View<const float> gradient, const Status& status) {
  bad_tensor_ = kNoTensor;
  if (status.nonfinite == 0) return;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Status found;
    find_nonfinite(*place_, gradient.sub(offset, tensors_[i].size), view_of(found));
    if (found.nonfinite != 0) {
      bad_tensor_ = i;
      return;
    }
    offset += tensors_[i].size;
  }
}

void Method::note_nonfinite(const Chunk& chunk, View<const float> gradient, const Status& status) {
  if (status.nonfinite == 0) return;
  std::uint64_t offset = 0;
  for (std::uint32_t i = chunk.first_tensor; i < chunk.first_tensor + chunk.tensor_count; ++i) {
    Status found;
    find_nonfinite(*place_, gradient.sub(offset, tensors_[i].size), view_of(found));
    offset += tensors_[i].size;
    if (found.nonfinite == 0) continue;
    bad_tensor_ = std::min<std::uint64_t>(bad_tensor_, i);
    return;
  }
}

/// Each rank says which tensor it found, and in which of its steps: asynchronous ranks have made different numbers.
/// Payloads told whose flag was up; after an engine's own sum, where no payload has a flag, it is the lowest rank that
/// found a tensor.
void Method::refuse_nonfinite(const Status& status, std::uint32_t step, const std::string& what) {
  struct Found {
    std::uint64_t tensor;
    std::uint64_t step;
  };
  const Found mine{bad_tensor_, step};
  std::vector<Found> found(static_cast<std::size_t>(ranks()));
  communicator_->all_gather(as_bytes(View<const Found>(&mine, 1)), as_writable_bytes(View<Found>(found))).wait();
  std::size_t culprit = 0;
  if (status.nonfinite_rank != 0) {
    culprit = status.nonfinite_rank - 1;
  } else {
    const auto first =
        std::find_if(found.begin(), found.end(), [](const Found& each) { return each.tensor != kNoTensor; });
    if (first != found.end()) culprit = static_cast<std::size_t>(first - found.begin());
  }
  throw NonfiniteValue(nonfinite_message(culprit, found[culprit].tensor, found[culprit].step, what));
}

void Method::refuse_own_nonfinite(std::uint32_t step) {
  const std::string message = nonfinite_message(static_cast<std::size_t>(rank()), bad_tensor_, step, "gradient");
  communicator_->fail(message);
  throw NonfiniteValue(message);
}

std::string Method::nonfinite_message(std::size_t culprit, std::uint64_t tensor, std::uint64_t step,
                                      const std::string& what) const {
  return name_ + ": rank " + std::to_string(culprit) + " has a NaN or an Inf " +
         (tensor == kNoTensor ? std::string("in what it remembers or in a sum")
                              : "in the " + what + " of tensor " + tensors_[tensor].name) +
         " at step " + std::to_string(step) +
         " (counted from 0): lower the learning rate, clip gradients, or drop such steps (nonfinite=\"skip\" in Python, "
         "--nonfinite skip, set_nonfinite_policy in C++)";
}

void GradientMethod::begin(StepKey key) {
  if (open_) throw InvalidConfig(name() + ": begin() before finish() of the step before: finish it first");
  if (!registered()) throw InvalidConfig(name() + ": begin() before register_tensors(): tell the tensors first");
  key_ = key;
  report_ = {};
  settled_ = false;
  stream().begin(waits_for_all(), report_);
  open_ = true;
}

void GradientMethod::add(std::span<const TensorPart> parts) {
  if (!open_) throw InvalidConfig(name() + ": add() before begin(): begin the step first");
  try {
    stream().add(parts);
  } catch (const TransportError&) {
    open_ = false;  // nothing to finish
    throw;
  }
}

StepReport GradientMethod::finish() {
  if (!open_) throw InvalidConfig(name() + ": finish() before begin(): begin the step first");
  if (!settled_) settle();
  open_ = false;
  return conclude();
}

bool GradientMethod::settle() {
  if (!open_) throw InvalidConfig(name() + ": settle() before begin(): begin the step first");
  stream().require_all();
  if (!settled_) {
    open_ = false;  // a failure leaves no step behind
    stream().finish();
    open_ = settled_ = true;
  }
  return stream().status().nonfinite == 0;
}

StepReport GradientMethod::abandon() {
  if (!open_ || !settled_) throw InvalidConfig(name() + ": abandon() before settle(): settle the step first");
  open_ = false;
  mark_ran();
  return drop();
}

StepReport GradientMethod::reduce(StepKey key, View<float> gradient) {
  if (!registered()) {
    const Tensor whole{"gradient", gradient.size()};
    register_tensors({&whole, 1});
  }
  require_size("gradient", gradient.size(), parameters());
  begin(key);
  open_ = false;  // a failure leaves no step behind
  split(tensors(), gradient, whole_);
  stream().add(whole_);
  stream().finish();
  return conclude();
}

StepReport GradientMethod::conclude() {
  mark_ran();
  const Status status = stream().status();
  if (status.nonfinite == 0) {
    commit();
    return report_;
  }
  if (policy_ == NonfinitePolicy::error) refuse_nonfinite(status, key_.step);
  return drop();
}

StepReport GradientMethod::drop() {
  stream().clear_parts();
  ++skipped_steps_;
  report_.skipped = true;
  return report_;
}

StepReport ModelMethod::start(View<float> model) {
  if (!registered()) {
    const Tensor whole{"model", model.size()};
    register_tensors({&whole, 1});
  }
  require_size("model", model.size(), parameters());
  return do_start(model);
}

void ModelMethod::require_same_start(View<const float> model) {
  const std::vector<AgreedField> fields{
      {"checksum of the start point", std::to_string(checksum(place(), as_bytes(model)))}};
  require_agreement(communicator(), fields);
}

StepReport ModelMethod::step(const StepInput& input, View<float> model, View<float> gradient) {
  require_size("gradient", gradient.size(), parameters());
  begin_step(input, model);
  open_ = false;  // a failure leaves no step behind
  split(tensors(), gradient, whole_);
  do_add(joined_->add(place(), whole_));
  do_finish();
  return do_step(input_, model_, gradient);
}

void ModelMethod::begin_step(const StepInput& input, View<float> model) {
  if (open_) throw InvalidConfig(name() + ": a step was begun before finish_step() of the one before: finish it first");
  if (!registered()) throw InvalidConfig(name() + ": a step was begun before start(): start first");
  require_size("model", model.size(), parameters());
  if (!(input.learning_rate >= 0.0F && std::isfinite(input.learning_rate))) {
    throw InvalidConfig("learning_rate must be 0 or more and finite, got " + std::to_string(input.learning_rate));
  }
  require_coefficients(input.tensors);
  mark_ran();
  input_ = input;
  model_ = model;
  joined_->begin();
  do_begin(input_, model_);
  open_ = true;
}

void ModelMethod::require_coefficients(std::span<const Coefficients> given) const {
  if (given.empty()) return;
  if (!takes_coefficients()) {
    throw InvalidConfig(name() + " takes no coefficients by tensor: its steps are the optimizer's (leave them out)");
  }
  require_size("coefficients", given.size(), tensors().size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto expect = [&](bool right, const char* setting, float value, const char* range) {
      if (right) return;
      throw InvalidConfig(name() + ": " + setting + " of tensor " + tensors()[i].name + " must be in " + range +
                          ", got " + std::to_string(value));
    };
    const Coefficients& each = given[i];
    expect(each.learning_rate >= 0.0F && std::isfinite(each.learning_rate), "learning_rate", each.learning_rate,
           "[0, inf)");
    expect(each.momentum >= 0.0F && each.momentum < 1.0F, "momentum", each.momentum, "[0, 1)");
    expect(each.weight_decay >= 0.0F && each.weight_decay < 1.0F, "weight_decay", each.weight_decay, "[0, 1)");
  }
}

void ModelMethod::add(std::span<const TensorPart> parts) {
  if (!open_) throw InvalidConfig(name() + ": add() before begin_step(): begin the step first");
  const auto placed = joined_->add(place(), parts);
  try {
    do_add(placed);
  } catch (const TransportError&) {
    open_ = false;  // nothing to finish
    throw;
  }
}

StepReport ModelMethod::finish_step() {
  if (!open_) throw InvalidConfig(name() + ": finish_step() before begin_step(): begin the step first");
  joined_->require_all();
  open_ = false;
  do_finish();
  return do_step(input_, model_, joined_->flat(place()));
}

void ModelMethod::read_out(View<const float> model, View<float> out) {
  require_size("model", model.size(), parameters());
  require_size("out", out.size(), parameters());
  do_read_out(model, out);
}

}  // namespace laconic
