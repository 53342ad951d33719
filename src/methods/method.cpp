#include "laconic/method.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/transfer.h"
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

/// A flat view as parts.
void split(std::span<const Tensor> tensors, View<float> flat, std::vector<TensorPart>& parts) {
  parts.clear();
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    parts.push_back({i, flat.sub(offset, tensors[i].size)});
    offset += tensors[i].size;
  }
}

constexpr std::string_view kSetting = "setting/";
std::string setting_entry(const std::string& setting) { return std::string(kSetting) + setting; }

/// One rank's memory to all. Where the place's memory is not the host's own, the engine gets a copy that it can reach.
void broadcast_memory(Communicator& communicator, Place& place, View<float> memory, int root) {
  if (place.queue() == nullptr) {
    communicator.broadcast(as_writable_bytes(memory), root).wait();
    return;
  }
  std::vector<float> here(memory.size());
  copy_to_host<float>(place, memory, here.data());
  communicator.broadcast(as_writable_bytes(View<float>(here)), root).wait();
  copy_from_host<float>(place, here.data(), memory);
}

[[noreturn]] void refuse_state(const std::string& what) { throw InvalidConfig("saved state " + what); }

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
  put_identity(state);
  save_memory(state);
  return state;
}

/// Whose memory it is, and under which settings it means something.
void Method::put_identity(State& state) const {
  state.put("method", name_);
  state.put("rank", static_cast<double>(rank()));
  state.put("ranks", static_cast<double>(ranks()));
  state.put("parameters", static_cast<double>(parameters_));
  for (const auto& [name, value] : settings_) state.put(setting_entry(name), value);
}

void Method::require_loadable(const State& state) const {
  if (!registered_) refuse_state("needs registered tensors before it is loaded: call register_tensors first");
  if (in_step()) refuse_state("was given in the middle of a step: load it between steps");
  if (const std::string saved = state.text("method"); saved != name_) {
    refuse_state("is of another method than " + name_ + ", of " + saved + ": load it into the method that saved it");
  }
  const auto expect = [&](const char* field, std::uint64_t mine, const char* remedy) {
    const std::uint64_t saved = state.count(field);
    if (saved == mine) return;
    refuse_state("has " + std::string(field) + " = " + std::to_string(saved) + ", this is " + std::to_string(mine) +
                 ": " + remedy);
  };
  expect("ranks", static_cast<std::uint64_t>(ranks()), "load it on as many ranks, then resize");
  expect("rank", static_cast<std::uint64_t>(rank()), "each rank loads its own");
  expect("parameters", parameters_, "load it for the same model");
  require_same_settings(state);
  {
    State mine;
    put_identity(mine);
    save_memory(mine);
    state.require_no_entries_beyond(mine);
  }
  require_loadable_memory(state);
}

void Method::require_same_settings(const State& state) const {
  const auto refuse = [&](const std::string& saved, const std::string& mine) {
    refuse_state("was saved with " + saved + ", this " + name_ + " has " + mine +
                 ": make the method with the settings of the run that was saved");
  };
  for (const auto& [name, mine] : settings_) {
    if (!state.has(setting_entry(name))) refuse("no " + name, name + " = " + mine);
    const std::string saved = state.text(setting_entry(name));
    if (saved != mine) refuse(name + " = " + saved, name + " = " + mine);
  }
  for (const std::string& entry : state.names()) {
    if (!entry.starts_with(kSetting)) continue;
    const std::string name = entry.substr(kSetting.size());
    const bool known =
        std::any_of(settings_.begin(), settings_.end(), [&](const SettingText& each) { return each.first == name; });
    if (!known) refuse(name + " = " + state.text(entry), "no " + name);
  }
}

void Method::require_loadable_memory(const State& state) const {
  State mine;
  save_memory(mine);
  state.require_entries_of(mine);
}

void Method::load(const State& state) {
  require_loadable(state);
  load_memory(state);
  stage_ = Stage::loaded;
}

void Method::resize(Communicator* next) {
  LACONIC_CHECK(registered_ == true);
  if (has_run()) {
    meet_newcomers(*communicator_);
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
  const int teller = meet_newcomers(*next);
  for (const auto& views : {owed(), shared()}) {
    for (const View<float>& view : views) broadcast_memory(*next, *place_, view, teller);
  }
  stage_ = Stage::resized;
  regrouped();
}

/// Ranks tell each other whether they ran and what they remember, so that all go through the same list of memories.
/// Returns the lowest rank that ran: it tells the newcomers. Collective.
int Method::meet_newcomers(Communicator& group) {
  struct Told {
    std::uint32_t ran;
    std::uint32_t has_late_memory;
  };
  const Told mine{has_run() ? 1U : 0U, has_late_memory() ? 1U : 0U};
  std::vector<Told> all(static_cast<std::size_t>(group.size()));
  group.all_gather(as_bytes(View<const Told>(&mine, 1)), as_writable_bytes(View<Told>(all))).wait();
  const auto first = std::find_if(all.begin(), all.end(), [](const Told& each) { return each.ran != 0; });
  if (first == all.end()) throw InvalidConfig("resize found no rank that ran before: start a new run instead");
  if (std::any_of(all.begin(), all.end(), [](const Told& each) { return each.has_late_memory != 0; })) {
    allocate_late_memory();
  }
  return static_cast<int>(first - all.begin());
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
void Method::refuse_nonfinite(const Status& status, std::uint32_t step, const std::string& what,
                              const std::string& remedy) {
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
  throw NonfiniteValue(nonfinite_message(culprit, found[culprit].tensor, found[culprit].step, what, remedy));
}

void Method::refuse_own_nonfinite(std::uint32_t step) {
  const std::string message =
      nonfinite_message(static_cast<std::size_t>(rank()), bad_tensor_, step, "gradient", kNonfiniteRemedy);
  communicator_->fail(message);
  throw NonfiniteValue(message);
}

std::string Method::nonfinite_message(std::size_t culprit, std::uint64_t tensor, std::uint64_t step,
                                      const std::string& what, const std::string& remedy) const {
  return name_ + ": rank " + std::to_string(culprit) + " has a NaN or an Inf " +
         (tensor == kNoTensor ? std::string("in what it remembers or in a sum")
                              : "in the " + what + " of tensor " + tensors_[tensor].name) +
         " at step " + std::to_string(step) + " (counted from 0): " + remedy;
}

void GradientMethod::begin(StepKey key) {
  if (open_) throw InvalidConfig(name() + ": begin() before finish() of the step before: finish it first");
  if (!registered()) throw InvalidConfig(name() + ": begin() before register_tensors(): tell the tensors first");
  key_ = key;
  key_.rank = static_cast<std::uint32_t>(rank());  // whatever the host says: ranks that draw alike round alike
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
  mark_running();
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
  mark_running();
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
  constexpr const char* kStages[] = {"of a new run", "after load", "after resize", "a second time"};
  std::vector<AgreedField> fields{{"start", kStages[static_cast<std::size_t>(stage())]},
                                  {"entries of the model", std::to_string(model.size())}};
  const bool running = stage() == Stage::running;
  if (!running) std::ranges::move(common_fields(model), std::back_inserter(fields));
  require_agreement(communicator(), fields);
  if (running) {
    throw InvalidConfig(name() + ": start() was called already: make a new method for a new run, or load a state");
  }
  require_size("model", model.size(), parameters());
  StepReport report = do_start(model);
  mark_running();
  return report;
}

std::vector<AgreedField> ModelMethod::common_fields(View<const float> model) {
  return {checksum_field("the start point", model)};
}

AgreedField ModelMethod::checksum_field(const std::string& what, View<const float> values) {
  return {"checksum of " + what, std::to_string(checksum(place(), as_bytes(values)))};
}

void ModelMethod::require_started() const {
  if (stage() == Stage::running) return;
  const char* since = stage() == Stage::loaded ? " after load()" : stage() == Stage::resized ? " after resize()" : "";
  throw InvalidConfig(name() + ": a step" + since + " was begun before start(): call start() on every rank first");
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
  require_started();
  require_size("model", model.size(), parameters());
  if (!(input.learning_rate >= 0.0F && std::isfinite(input.learning_rate))) {
    throw InvalidConfig("learning_rate must be 0 or more and finite, got " + std::to_string(input.learning_rate));
  }
  require_coefficients(input.tensors);
  input_ = input;
  input_.key.rank = static_cast<std::uint32_t>(rank());
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
