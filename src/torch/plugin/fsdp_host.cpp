#include "torch/plugin/fsdp_host.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "torch/plugin/tensors.h"

namespace laconic::plugin {

class ShardedStep {
 public:
  explicit ShardedStep(std::optional<c10::Stream> stream) : stream_(std::move(stream)) {}

  void expect() {
    const std::lock_guard lock(mutex_);
    ++pending_;
  }

  /// What the caller's stream has been given so far comes before what the methods do.
  void note_written(c10::Device device) {
    if (!stream_) return;
    const c10::impl::VirtualGuardImpl guard(device.type());
    written_.emplace_back(device.type());
    written_.back().record(guard.getStream(device));
    written_.back().block(*stream_);
  }

  void close(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome == Outcome::abandoned) abandoned_ = true;
    --pending_;
    ended_.notify_all();
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    --pending_;
    if (!error_) error_ = std::move(error);
    ended_.notify_all();
  }

  void note_late(std::vector<std::uint32_t> late) {
    const std::lock_guard lock(mutex_);
    late_ = std::move(late);
  }

  /// Whether a rank abandoned the step, so that all dropped it. After wait.
  bool abandoned() const { return abandoned_; }
  /// What each replica reported with LateReport. After wait.
  const std::vector<std::uint32_t>& late() const { return late_; }

  /// Throws what the step failed with. The caller's stream waits for the methods' one.
  void wait(c10::Device device) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return pending_ == 0; });
    if (stream_) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      c10::Event done(device.type());
      done.record(*stream_);
      done.block(guard.getStream(device));
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::optional<c10::Stream> stream_;
  std::vector<c10::Event> written_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int pending_ = 0;
  bool abandoned_ = false;
  std::vector<std::uint32_t> late_;
  std::exception_ptr error_;
};

namespace {

constexpr std::uint32_t kNoneLate = std::numeric_limits<std::uint32_t>::max();

/// Tells the other replicas which parameter had a call after its exchange had begun: the first, or kNoneLate. It is sent
/// before the step's last exchanges and read after them, so that nothing waits for it. Used by the host's thread.
class LateReport {
 public:
  LateReport(Communicator& replicas, std::uint32_t mine)
      : replicas_(replicas), mine_(mine), all_(static_cast<std::size_t>(replicas.size()), kNoneLate) {}

  void start() {
    handle_ = replicas_.all_gather(as_bytes(View<const std::uint32_t>(&mine_, 1)),
                                   as_writable_bytes(View<std::uint32_t>(all_)));
  }

  std::vector<std::uint32_t> read() {
    handle_.wait();
    return all_;
  }

 private:
  Communicator& replicas_;
  std::uint32_t mine_;
  std::vector<std::uint32_t> all_;
  Handle handle_;
};

class ShardDelivery final : public Delivery {
 public:
  ShardDelivery(std::shared_ptr<ShardedStep> step, std::vector<TensorPart> parts, std::vector<std::uint32_t> unused,
                std::unique_ptr<LateReport> late, bool abandons)
      : step_(std::move(step)),
        parts_(std::move(parts)),
        unused_(std::move(unused)),
        late_(std::move(late)),
        abandons_(abandons) {
    step_->expect();
  }

  std::span<const TensorPart> open() override {
    if (late_) late_->start();
    return parts_;
  }
  std::span<const std::uint32_t> unused() const override { return unused_; }
  bool abandons() const override { return abandons_; }
  void close(Outcome outcome) override {
    if (late_) step_->note_late(late_->read());
    step_->close(outcome);
  }
  void fail(std::exception_ptr error) noexcept override { step_->fail(std::move(error)); }

 private:
  std::shared_ptr<ShardedStep> step_;
  std::vector<TensorPart> parts_;
  std::vector<std::uint32_t> unused_;
  std::unique_ptr<LateReport> late_;  ///< null: not the last one of its step
  bool abandons_;
};

std::vector<Tensor> shards_of(const ShardedModel& model) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < model.names.size(); ++i) tensors.push_back({model.names[i], model.sizes[i]});
  return tensors;
}

}  // namespace

FsdpHost::FsdpHost(std::shared_ptr<Communicator> communicator, std::shared_ptr<Communicator> shards, int threads,
                   ShardedModel model, std::vector<MethodGroup> groups, const MethodSetOptions& options)
    : names_(model.names), sizes_(model.sizes), replicas_(*communicator), shards_(shards ? shards->size() : 1) {
  const at::Tensor there = at::empty({0}, at::TensorOptions().dtype(at::kFloat).device(model.device));
  Workplace work = workplace_for({&there, 1}, threads, WorkStream::own);
  reason_for_cpu_ = std::move(work.reason);
  stream_ = work.stream;
  std::int64_t entries = 0;
  for (const std::uint64_t size : sizes_) entries += static_cast<std::int64_t>(size);
  buffer_ = at::zeros({entries}, there.options().device(stream_ ? model.device : c10::Device(c10::kCPU)));
  std::int64_t offset = 0;
  for (const std::uint64_t size : sizes_) {
    parameters_.emplace_back().values = buffer_.narrow(0, offset, static_cast<std::int64_t>(size));
    offset += static_cast<std::int64_t>(size);
  }
  host_ = std::make_unique<GradientHost>(std::move(communicator), std::move(work.place), shards_of(model),
                                         std::move(groups), options, /*scaled=*/false, std::move(shards));
}

/// The buffer belongs to what the host's thread is doing.
FsdpHost::~FsdpHost() { host_->close(); }

void FsdpHost::submit(const at::Tensor& flat, const std::vector<FlatSlice>& slices, const Scaling& scaling) {
  const c10::NoGradGuard unseen;
  if (!in_step()) {
    step_ = std::make_shared<ShardedStep>(stream_);
    inside_.last = 0;
    dropped_ = false;
  }
  inside_.last += static_cast<std::uint64_t>(flat.nbytes()) * static_cast<std::uint64_t>(shards_ - 1);
  std::vector<std::uint32_t> ready;
  for (const FlatSlice& each : slices) {
    Parameter& parameter = parameters_.at(each.parameter);
    const at::Tensor slice = flat.narrow(0, each.offset, parameter.values.numel());
    if (parameter.delivered) {
      take_late(each.parameter, slice);
      continue;
    }
    take(parameter, slice);
    parameter.scaling = scaling;
    parameter.type = flat.scalar_type();
    if (!first_step_ && !parameter.several) ready.push_back(each.parameter);
  }
  flat.zero_();
  step_->note_written(flat.device());
  // A step is ended by finish alone, so that one that fails before can still be dropped on all ranks.
  if (!ready.empty() && !would_end(ready)) deliver(ready);
}

void FsdpHost::take(Parameter& parameter, const at::Tensor& slice) {
  if (parameter.reached) {
    parameter.several = true;
    parameter.values.add_(slice.to(parameter.values.device(), at::kFloat));
  } else {
    parameter.values.copy_(slice);
  }
  parameter.reached = true;
}

void FsdpHost::take_late(std::uint32_t index, const at::Tensor& slice) {
  if (!late_.defined()) late_ = at::zeros_like(buffer_);
  parameters_[index].several = true;
  late_parameters_.push_back(index);
  at::Tensor values = late_.narrow(0, parameters_[index].values.storage_offset(), slice.numel());
  values.add_(slice.to(values.device(), at::kFloat));
}

bool FsdpHost::would_end(const std::vector<std::uint32_t>& parameters) const {
  std::vector<bool> here(parameters_.size());
  for (const std::uint32_t each : parameters) here[each] = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!here[i] && !parameters_[i].delivered && sizes_[i] > 0) return false;
  }
  return true;
}

void FsdpHost::deliver(const std::vector<std::uint32_t>& parameters, bool last, bool abandons) {
  std::vector<TensorPart> parts;
  std::vector<std::uint32_t> unused;
  for (const std::uint32_t each : parameters) {
    parameters_[each].delivered = true;
    parts.push_back({each, float_view(parameters_[each].values, "a shard's gradient")});
    if (!parameters_[each].reached) unused.push_back(each);
  }
  std::unique_ptr<LateReport> late;
  if (last) {
    const auto first = std::ranges::min_element(late_parameters_);
    late = std::make_unique<LateReport>(replicas_, first == late_parameters_.end() ? kNoneLate : *first);
  }
  host_->submit(
      std::make_unique<ShardDelivery>(step_, std::move(parts), std::move(unused), std::move(late), abandons));
}

/// `missing`: the values of parameters that no call has reached.
void FsdpHost::deliver_rest(float missing, bool abandons) {
  std::vector<std::uint32_t> rest;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].delivered) continue;
    if (!parameters_[i].reached) parameters_[i].values.fill_(missing);
    rest.push_back(i);
  }
  step_->note_written(buffer_.device());
  deliver(rest, /*last=*/true, abandons);
}

/// How replicas differ in the calls that came late; empty if they do not.
std::string FsdpHost::difference() const {
  const std::vector<std::uint32_t>& late = step_->late();
  const auto first = std::ranges::find_if(late, [](std::uint32_t each) { return each != kNoneLate; });
  if (first == late.end()) return {};
  const auto other = std::ranges::find_if(late, [&](std::uint32_t each) { return each != *first; });
  if (other == late.end()) return {};
  return "rank " + std::to_string(first - late.begin()) + " of the replicas had a further gradient of " +
         names_[*first] + " in one backward, and rank " + std::to_string(other - late.begin()) +
         (*other == kNoneLate ? " had none" : " one of " + names_[*other]) +
         ": replicas must call the same modules equally often in each step";
}

void FsdpHost::wait() {
  try {
    step_->wait(buffer_.device());
    // Also if steps may be skipped: a rank that went on to its optimizer would leave the others behind.
    if (step_->abandoned()) {
      throw NonfiniteValue("a rank abandoned this step, and all ranks dropped it: call abandon_step() here as well");
    }
    if (const std::string text = difference(); !text.empty()) throw OtherParameters(text);
  } catch (...) {
    dropped_ = true;
    reset();
    throw;
  }
}

void FsdpHost::finish(const std::vector<at::Tensor>& gradients) {
  const c10::NoGradGuard unseen;
  LACONIC_CHECK(gradients.size() == parameters_.size());
  LACONIC_CHECK(in_step());
  deliver_rest(0.0F);
  wait();
  add_to(gradients);
  if (late_.defined()) run_late(gradients);
  inside_.total += inside_.last;
  first_step_ = false;
  dropped_ = false;
  reset();
}

/// A further step of the same backward, on all replicas alike: calls are those of the model.
void FsdpHost::run_late(const std::vector<at::Tensor>& gradients) {
  for (Parameter& each : parameters_) each.reached = each.delivered = false;
  for (const std::uint32_t each : late_parameters_) parameters_[each].reached = true;
  buffer_.copy_(late_);
  step_ = std::make_shared<ShardedStep>(stream_);
  deliver_rest(0.0F);
  wait();
  add_to(gradients);
}

/// fully_shard has added zeros, divided and converted them. Here the same is done with the aggregate, in its types.
void FsdpHost::add_to(const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    if (!parameter.reached || sizes_[i] == 0) continue;
    LACONIC_CHECK(gradients[i].defined());
    at::Tensor values = parameter.values;
    if (parameter.scaling.factor != 1.0) values.mul_(parameter.scaling.factor);
    if (parameter.type != at::kFloat) values = values.to(parameter.type);
    if (parameter.scaling.divisor != 1.0) values.div_(parameter.scaling.divisor);
    gradients[i].add_(values.to(gradients[i].device(), gradients[i].scalar_type()).view(gradients[i].sizes()));
  }
}

void FsdpHost::abandon() {
  const c10::NoGradGuard unseen;
  if (std::exchange(dropped_, false)) return;
  if (!in_step()) step_ = std::make_shared<ShardedStep>(stream_);
  // All ranks drop a step with a value that is not finite.
  for (Parameter& each : parameters_) {
    if (!each.delivered) each.reached = false;
  }
  deliver_rest(std::numeric_limits<float>::quiet_NaN(), /*abandons=*/true);
  try {
    wait();
  } catch (const NonfiniteValue&) {
    dropped_ = false;
  }
  reset();
}

void FsdpHost::reset() {
  for (Parameter& each : parameters_) each.reached = each.delivered = false;
  late_ = at::Tensor();
  late_parameters_.clear();
  step_.reset();
}

std::vector<std::uint32_t> FsdpHost::reached() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].reached) found.push_back(i);
  }
  return found;
}

}  // namespace laconic::plugin
