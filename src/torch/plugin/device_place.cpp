#include "torch/plugin/device_place.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "laconic/cuda.h"

namespace laconic::plugin {
namespace {

/// Why methods cannot work where these tensors lie; empty if they can.
std::string obstacle(std::span<const at::Tensor> tensors) {
  const c10::Device device = tensors.front().device();
  const bool together = std::all_of(tensors.begin(), tensors.end(),
                                    [&](const at::Tensor& tensor) { return tensor.device() == device; });
  if (!together) return "the parameters lie on several devices";
  if (!device.is_cuda()) return "methods have no kernels for " + device.str();
  return cuda_obstacle(device.index());
}

/// torch identifies a stream that it did not make by the stream's address, and the default stream by 0.
c10::Stream known_to_torch(Place& place, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(cuda_stream(place)));
}

void wait_for(const c10::Stream& first, const c10::Stream& second) {
  c10::Event reached(first.device_type());
  reached.record(first);
  reached.block(second);
}

}  // namespace

Workplace workplace_for(std::span<const at::Tensor> tensors, int threads, WorkStream stream) {
  Workplace work;
  const bool on_cpu = std::all_of(tensors.begin(), tensors.end(),
                                  [](const at::Tensor& tensor) { return tensor.device().is_cpu(); });
  if (!on_cpu) work.reason = obstacle(tensors);
  if (on_cpu || !work.reason.empty()) {
    work.place = std::make_unique<Place>(CpuOptions{.threads = threads});
    return work;
  }
  const c10::Device device = tensors.front().device();
  CudaOptions options{.device = device.index()};
  if (stream == WorkStream::own) {
    options.high_priority = true;
  } else {
    options.stream = nullptr;
  }
  work.place = cuda_place(options);
  work.stream = known_to_torch(*work.place, device);
  return work;
}

CallOrder::CallOrder(const std::optional<c10::Stream>& stream) : stream_(stream) {
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl device(stream_->device_type());
  const c10::Stream current = device.getStream(stream_->device());
  if (current == *stream_) return;
  wait_for(current, *stream_);
  callers_ = current;
  current_.reset_stream(*stream_);
}

CallOrder::~CallOrder() {
  if (!callers_) return;
  try {
    wait_for(*stream_, *callers_);
  } catch (...) {
    // The device has failed. The next call on it reports that.
  }
}

}  // namespace laconic::plugin
