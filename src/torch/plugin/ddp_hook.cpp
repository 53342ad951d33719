#include "torch/plugin/ddp_hook.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "laconic/error.h"
#include "torch/plugin/device_place.h"
#include "torch/plugin/tensors.h"

namespace laconic::plugin {

class Staging {
 public:
  Staging(DdpModel model, std::optional<c10::Stream> stream, bool takes_16bit)
      : model_(std::move(model)), method_stream_(std::move(stream)), takes_16bit_(takes_16bit && !scaled()) {
    for (std::uint32_t i = 0; i < model_.parameters.size(); ++i) {
      index_of_[model_.parameters[i].unsafeGetTensorImpl()] = i;
    }
  }

  std::uint32_t index_of(const at::Tensor& parameter) const {
    const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
    if (found == index_of_.end()) {
      throw InvalidConfig("a bucket has a parameter that the model did not have when the hook was made: make it last");
    }
    return found->second;
  }

  const at::Tensor& parameter(std::uint32_t index) const { return model_.parameters[index]; }
  const at::Tensor& scale() const { return model_.scale; }
  bool scaled() const { return model_.scale.defined(); }

  /// Whether the methods work on the device, rather than on the CPU.
  bool works_on_device() const { return method_stream_.has_value(); }

  /// Whether the methods can work on a bucket where it is and in its type. A scaled gradient of 16 bits cannot be unscaled
  /// in its type: small entries would become 0.
  bool can_use(const at::Tensor& bucket, bool must_be_float32) const {
    if (!bucket.is_contiguous() || !(bucket.is_cpu() || works_on_device())) return false;
    return bucket.scalar_type() == at::kFloat || (takes_16bit_ && !must_be_float32 && has_16bit(bucket));
  }

  /// Memory for a bucket that the methods cannot work on where it is or in its type; kept from step to step.
  at::Tensor floats(std::size_t number, const at::Tensor& bucket) {
    if (number >= floats_.size()) floats_.resize(number + 1);
    at::Tensor& kept = floats_[number];
    if (kept.defined() && kept.numel() == bucket.numel()) return kept;
    auto options = at::TensorOptions().dtype(at::kFloat);
    if (works_on_device()) {
      options = options.device(bucket.device());
    } else {
      options = options.pinned_memory(!bucket.is_cpu());  // so that copies run at the bus's pace
    }
    kept = at::empty(bucket.numel(), options);
    return kept;
  }

  void forget_floats() { floats_.clear(); }

  /// On which buckets of a device are worked on or travel: in the training loop's stream they would wait for its
  /// kernels, and these for them. None for buckets in CPU memory.
  std::optional<c10::Stream> stream(c10::Device device) {
    if (device.is_cpu()) return std::nullopt;
    if (method_stream_) return method_stream_;
    const auto found = streams_.find(device);
    if (found != streams_.end()) return found->second;
    const c10::impl::VirtualGuardImpl guard(device.type());
    return streams_.emplace(device, guard.getStreamFromGlobalPool(device)).first->second;
  }

 private:
  DdpModel model_;
  std::optional<c10::Stream> method_stream_;
  bool takes_16bit_;
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> index_of_;
  std::vector<at::Tensor> floats_;
  std::unordered_map<c10::Device, c10::Stream> streams_;
};

namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

class BucketDelivery final : public Delivery {
 public:
  BucketDelivery(std::shared_ptr<Staging> staging, c10d::GradBucket& bucket, c10::IValue result, Future future)
      : staging_(std::move(staging)),
        number_(bucket.getIndex()),
        last_(bucket.isLast()),
        buffer_(bucket.getBuffer()),
        gradients_(bucket.getGradients()),
        parameters_(bucket.getParameters()),
        result_(std::move(result)),
        future_(std::move(future)) {
    if (buffer_.is_cpu()) return;
    // The reducer's stream may still be writing.
    const c10::impl::VirtualGuardImpl device(buffer_.device().type());
    written_.emplace(buffer_.device().type());
    written_->record(device.getStream(buffer_.device()));
  }

  /// Which of them no backward has reached. While the reducer waits for this call.
  void note_unused(UsedParameters& used) {
    for (const at::Tensor& each : parameters_) {
      const std::uint32_t index = staging_->index_of(each);
      if (!used.take(index)) unused_.push_back(index);
    }
    if (!unused_.empty()) must_be_float32_ = true;
  }

  void note_carried(std::span<const std::uint32_t> carried) override {
    for (const at::Tensor& each : parameters_) {
      if (carried[staging_->index_of(each)] != 0) must_be_float32_ = true;
    }
  }

  std::span<const TensorPart> open() override {
    if (buffer_.is_sparse()) throw InvalidConfig("a gradient is sparse: methods need dense ones, set sparse=False");
    const at::NoGradGuard unseen;
    const std::optional<c10::Stream> stream = staging_->stream(buffer_.device());
    if (stream) written_->block(*stream);
    const c10::OptionalStreamGuard ours(stream);
    const bool reachable = buffer_.is_cpu() || staging_->works_on_device();
    const bool in_place = staging_->can_use(buffer_, must_be_float32_);
    values_ = in_place ? buffer_ : staging_->floats(number_, buffer_);
    if (!in_place) values_.copy_(buffer_, /*non_blocking=*/true);
    if (staging_->scaled()) {
      // A scale on the same device is never read here: that would wait for the device.
      scale_ = staging_->scale().to(values_.device(), /*non_blocking=*/false, /*copy=*/true);
    }
    if (!reachable) stream->synchronize();
    if (scale_.defined()) values_.mul_(scale_.to(at::kDouble).reciprocal().to(at::kFloat));
    const GradientView all = gradient_view(values_, "a bucket");
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto offset = static_cast<std::size_t>(gradients_[i].storage_offset() - buffer_.storage_offset());
      parts_.push_back(
          {staging_->index_of(parameters_[i]), all.sub(offset, static_cast<std::size_t>(gradients_[i].numel()))});
    }
    return parts_;
  }

  std::span<const std::uint32_t> unused() const override { return unused_; }
  bool last() const override { return last_; }

  /// What is copied last is not waited for here: the future holds the stream's event, for whoever waits for it.
  void close(Outcome outcome) override {
    const at::NoGradGuard unseen;
    const c10::OptionalStreamGuard ours(staging_->stream(buffer_.device()));
    if (outcome == Outcome::skipped && staging_->scaled()) {
      buffer_.fill_(std::numeric_limits<float>::infinity());
    } else {
      if (scale_.defined()) values_.mul_(scale_);
      if (!values_.is_same(buffer_)) buffer_.copy_(values_, /*non_blocking=*/true);
    }
    future_->markCompleted(std::move(result_),
                           std::vector<c10::ivalue::Future::WeakStorage>{buffer_.storage().getWeakStorageImpl()});
  }

  /// Once the future has its error, the bucket's memory may be used for something else.
  void fail(std::exception_ptr error) noexcept override {
    try {
      if (const auto stream = staging_->stream(buffer_.device())) stream->synchronize();
    } catch (...) {
      // The device has failed, and with it what was using the memory.
    }
    future_->setErrorIfNeeded(error);
  }

 private:
  std::shared_ptr<Staging> staging_;
  std::size_t number_;
  bool last_;
  at::Tensor buffer_;
  std::vector<at::Tensor> gradients_;
  std::vector<at::Tensor> parameters_;
  c10::IValue result_;
  Future future_;
  std::optional<c10::Event> written_;
  std::vector<std::uint32_t> unused_;
  bool must_be_float32_ = false;  ///< a parameter was not used, now or in the step before
  at::Tensor values_;             ///< the buffer, or a copy in float32 where the methods work
  at::Tensor scale_;              ///< in this step, where the values are; undefined: none
  std::vector<TensorPart> parts_;
};

using Kind = std::pair<at::ScalarType, c10::Device>;
bool by_kind(const Kind& a, const Kind& b) {
  return std::pair(a.first, a.second.str()) < std::pair(b.first, b.second.str());
}

std::vector<Tensor> tensors_of(const DdpModel& model) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    tensors.push_back({model.names[i], static_cast<std::uint64_t>(model.parameters[i].numel())});
  }
  return tensors;
}

}  // namespace

DdpHost::DdpHost(std::shared_ptr<Communicator> communicator, int threads, DdpModel model,
                 std::vector<MethodGroup> groups, const MethodSetOptions& options)
    : used_(options.drops_unused ? std::make_unique<UsedParameters>(model.parameters) : nullptr) {
  Workplace work = workplace_for(model.parameters, threads, WorkStream::own);
  reason_for_cpu_ = std::move(work.reason);
  staging_ = std::make_shared<Staging>(model, work.stream, options.takes_16bit());
  host_ = std::make_unique<GradientHost>(std::move(communicator), std::move(work.place), tensors_of(model),
                                         std::move(groups), options, staging_->scaled());
}

/// torch keeps freed memory by stream: what was allocated on the place's stream is freed before the stream ends.
DdpHost::~DdpHost() {
  host_->close();
  staging_->forget_floats();
}

Future DdpHost::submit(c10d::GradBucket& bucket, c10::IValue result, const c10::TypePtr& type) {
  const at::Tensor& buffer = bucket.getBuffer();
  std::vector<c10::Device> devices;
  if (!buffer.is_cpu()) devices.push_back(buffer.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(type, devices);
  auto delivery = std::make_unique<BucketDelivery>(staging_, bucket, std::move(result), future);
  if (used_) delivery->note_unused(*used_);
  host_->submit(std::move(delivery));
  return future;
}

void DdpHost::arrange(c10d::Reducer& reducer, std::size_t bytes) const {
  using Bucket = std::vector<std::size_t>;
  std::vector<Bucket> buckets;
  for (const Neighbours& group : host_->neighbours()) {
    // A bucket has one type and one device. Stretches are cut from the end, as backward goes.
    std::map<Kind, std::pair<Bucket, std::size_t>, decltype(&by_kind)> open(&by_kind);
    for (auto each = group.parameters.rbegin(); each != group.parameters.rend(); ++each) {
      const at::Tensor& parameter = staging_->parameter(*each);
      auto& [bucket, filled] = open[{parameter.scalar_type(), parameter.device()}];
      bucket.push_back(*each);
      filled += parameter.nbytes();
      if (!group.streams || filled < bytes) continue;
      if (!std::binary_search(group.starts.begin(), group.starts.end(), *each)) continue;
      buckets.push_back(std::exchange(bucket, {}));
      filled = 0;
    }
    for (auto& [kind, rest] : open) {
      if (!rest.first.empty()) buckets.push_back(rest.first);
    }
  }
  for (Bucket& bucket : buckets) std::reverse(bucket.begin(), bucket.end());
  // The reducer hands them over in this order: those that are full first go first.
  std::sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) { return a.front() > b.front(); });
  reducer.initialize_buckets(std::move(buckets));
}

Future DdpHook::runHook(c10d::GradBucket& bucket) {
  return host_->submit(bucket, c10::IValue(bucket.getBuffer()), c10::TensorType::get());
}

at::Tensor DdpHook::parseHookResult(const c10::IValue& result) { return c10d::detail::parseCppCommHookResult(result); }

}  // namespace laconic::plugin
