#include "torch/plugin/device_place.h"

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
  if (cuda_device_count() == 0) return "this build of Laconic has no CUDA kernels: build it where nvcc is found";
  return {};
}

/// torch identifies a stream that it did not make by the stream's address.
c10::Stream known_to_torch(Place& place, c10::Device device) {
  return {c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(cuda_stream(place))};
}

}  // namespace

Workplace workplace_for(std::span<const at::Tensor> tensors, int threads) {
  Workplace work;
  const bool on_cpu = std::all_of(tensors.begin(), tensors.end(),
                                  [](const at::Tensor& tensor) { return tensor.device().is_cpu(); });
  if (!on_cpu) work.reason = obstacle(tensors);
  if (on_cpu || !work.reason.empty()) {
    work.place = std::make_unique<Place>(CpuOptions{.threads = threads});
    return work;
  }
  const c10::Device device = tensors.front().device();
  work.place = cuda_place({.device = device.index(), .high_priority = true});
  work.stream = known_to_torch(*work.place, device);
  return work;
}

}  // namespace laconic::plugin
