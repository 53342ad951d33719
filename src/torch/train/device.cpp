#include "torch/train/device.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "laconic/cuda.h"
#include "laconic/error.h"

namespace laconic {
namespace {

constexpr int kGpu = 0;  // the first that CUDA_VISIBLE_DEVICES leaves
const c10::Device kTorchGpu(c10::DeviceType::CUDA, kGpu);

bool is_gpu(const std::string& device) { return device == device_name(Device::cuda); }

[[noreturn]] void refuse(const std::string& reason, const std::string& remedy) {
  throw InvalidConfig("device cuda cannot be used: " + reason + ". " + remedy + ", or use device cpu");
}

/// torch's operators for CUDA register themselves when their library is loaded. It is loaded here, as Python does it, and
/// not linked: programs that do not use it start faster, and its many libraries cannot replace functions of the program.
bool torch_has_cuda() {
  static const bool loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_LOCAL) != nullptr;
  return loaded && c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA);
}

/// Gives the same bits in every run: no operator adds in the order of arrival or is chosen by its measured speed. An
/// operator that has no such algorithm still runs, and torch warns. TF32 would round inputs to 10 bits.
void compute_deterministically() {
  static std::once_flag told;
  std::call_once(told, [] {
    // Without this variable cuBLAS may use other algorithms when several streams compute at once. It is read at the
    // first product.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(false);  // a pass over new memory that nothing needs
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
  });
}

/// Places that no worker uses. torch keeps freed memory by stream, so workers of later runs get the same streams again:
/// with new ones, each run would add to the memory that is kept.
class IdlePlaces {
 public:
  std::unique_ptr<Place> take() {
    const std::lock_guard lock(mutex_);
    if (places_.empty()) return cuda_place({.device = kGpu});
    std::unique_ptr<Place> place = std::move(places_.back());
    places_.pop_back();
    return place;
  }

  void give_back(std::unique_ptr<Place> place) {
    const std::lock_guard lock(mutex_);
    places_.push_back(std::move(place));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> places_;
};

/// Never destroyed: at the end of the program CUDA may be gone first.
IdlePlaces& idle_places() {
  static auto* const places = new IdlePlaces;
  return *places;
}

/// Makes a stream torch's current one in this thread. Returns torch's number of the one before.
c10::StreamId exchange_stream(c10::StreamId stream) {
  const c10::impl::VirtualGuardImpl cuda(kTorchGpu.type());
  return cuda.exchangeStream(c10::Stream(c10::Stream::UNSAFE, kTorchGpu, stream)).id();
}

}  // namespace

void require_training_device(const std::string& device) {
  if (!is_gpu(device)) return;
  if (LACONIC_CUDA == 0) {
    refuse("this build has no CUDA", "Install the CUDA toolkit and build again with -DLACONIC_CUDA=ON");
  }
  if (cuda_device_count() == 0) {
    refuse("there is no GPU that CUDA can use", "Look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (!torch_has_cuda()) {
    refuse("this build's PyTorch has no CUDA", "Install a CUDA build of PyTorch and build again");
  }
  compute_deterministically();
}

std::string training_device_text(const std::string& device) {
  if (!is_gpu(device)) return device;
  return cuda_device_name(kGpu) + ", deterministic algorithms, no TF32";
}

std::shared_ptr<Place> training_place(const RunConfig& config) {
  if (!is_gpu(config.task.device)) return std::make_shared<Place>(CpuOptions{.threads = config.threads});
  require_training_device(config.task.device);
  return {idle_places().take().release(),
          [](Place* used) { idle_places().give_back(std::unique_ptr<Place>(used)); }};
}

TorchOnPlace::TorchOnPlace(Place& place) : on_gpu_(place.device() == Device::cuda) {
  if (!on_gpu_) return;
  // torch's number of a stream that it did not create is the pointer to it.
  stream_before_ = exchange_stream(reinterpret_cast<c10::StreamId>(cuda_stream(place)));
  c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  multithreading_before_ = autograd.get_multithreading_enabled();
  autograd.set_multithreading_enabled(false);
}

TorchOnPlace::~TorchOnPlace() {
  if (!on_gpu_) return;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(multithreading_before_);
  exchange_stream(stream_before_);
}

/// Without torch's cache of rounded parameters: all threads would share it, and no parameter is rounded twice in a pass.
InPrecision::InPrecision(const RunConfig& config)
    : rounds_(config.task.precision != "f32"), on_gpu_(is_gpu(config.task.device)) {
  if (!rounds_) return;
  const at::DeviceType device = on_gpu_ ? at::kCUDA : at::kCPU;
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, true);
}

InPrecision::~InPrecision() {
  if (!rounds_) return;
  at::autocast::set_autocast_enabled(on_gpu_ ? at::kCUDA : at::kCPU, false);
  at::autocast::set_autocast_cache_enabled(true);
}

}  // namespace laconic
