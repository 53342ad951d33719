#include "torch/plugin/fsdp_host.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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

  /// Whether a rank abandoned the step, so that all dropped it. After wait.
  bool abandoned() const { return abandoned_; }

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
  std::exception_ptr error_;
};

namespace {

/// What one delivery tells about its step.
struct Marks {
  std::vector<std::uint32_t> unused;
  std::vector<std::uint32_t> late;
  bool abandons = false;
};

class ShardDelivery final : public Delivery {
 public:
  ShardDelivery(std::shared_ptr<ShardedStep> step, std::vector<TensorPart> parts, Marks marks)
      : step_(std::move(step)), parts_(std::move(parts)), marks_(std::move(marks)) {
    step_->expect();
  }

  std::span<const TensorPart> open() override { return parts_; }
  std::span<const std::uint32_t> unused() const override { return marks_.unused; }
  std::span<const std::uint32_t> late() const override { return marks_.late; }
  bool abandons() const override { return marks_.abandons; }
  void close(Outcome outcome) override { step_->close(outcome); }
  void fail(std::exception_ptr error) noexcept override { step_->fail(std::move(error)); }

 private:
  std::shared_ptr<ShardedStep> step_;
  std::vector<TensorPart> parts_;
  Marks marks_;
};

std::vector<Tensor> shards_of(const ShardedModel& model) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < model.names.size(); ++i) tensors.push_back({model.names[i], model.sizes[i]});
  return tensors;
}

}  // namespace

FsdpHost::FsdpHost(std::shared_ptr<Communicator> communicator, std::shared_ptr<Communicator> shards, int threads,
                   ShardedModel model, std::vector<MethodGroup> groups, const MethodSetOptions& options)
    : sizes_(model.sizes), shards_(shards ? shards->size() : 1) {
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
    if (!here[i] && !parameters_[i].delivered) return false;
  }
  return true;
}

void FsdpHost::deliver(const std::vector<std::uint32_t>& parameters, bool last, bool abandons) {
  std::vector<TensorPart> parts;
  Marks marks{.unused = {}, .late = {}, .abandons = abandons};
  for (const std::uint32_t each : parameters) {
    parameters_[each].delivered = true;
    parts.push_back({each, float_view(parameters_[each].values, "a shard's gradient")});
    if (!parameters_[each].reached) marks.unused.push_back(each);
  }
  if (last) marks.late = late_parameters_;
  host_->submit(std::make_unique<ShardDelivery>(step_, std::move(parts), std::move(marks)));
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

void FsdpHost::wait() {
  try {
    step_->wait(buffer_.device());
    // Also if steps may be skipped: a rank that went on to its optimizer would leave the others behind.
    if (step_->abandoned()) {
      throw NonfiniteValue("a rank abandoned this step, and all ranks dropped it: call abandon_step() here as well");
    }
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
  late_parameters_.clear();
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
  // The others learn from a value that is not finite which rank it was.
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
