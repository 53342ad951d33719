#include "laconic/place.h"

#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/device_queue.h"
#include "base/thread_pool.h"
#include "base/workspace.h"
#include "laconic/error.h"
#include "laconic/threads.h"

namespace laconic {
namespace {

int thread_count(int asked) {
  if (asked < 0 || asked > kMostThreads) {
    throw InvalidConfig("threads must be in 0.." + std::to_string(kMostThreads) + ", got " + std::to_string(asked) +
                        ": 0 means one per core");
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : cores > 0 ? cores : 1;
}

SimdLevel usable(SimdLevel level) { return simd_available(level) ? level : simd_from_name(simd_name(level)); }

}  // namespace

const char* device_name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

Place::Place(CpuOptions options) : Place(options, nullptr) {}

Place::Place(CpuOptions options, std::unique_ptr<DeviceQueue> memory)
    : device_(Device::cpu),
      simd_(usable(options.simd)),
      pool_(std::make_unique<ThreadPool>(thread_count(options.threads))),
      queue_(std::move(memory)),
      workspace_(std::make_unique<Workspace>(device_, queue_.get())) {}

Place::Place(Device device, std::unique_ptr<DeviceQueue> queue)
    : device_(device),
      simd_(SimdLevel::reference),
      queue_(std::move(queue)),
      workspace_(std::make_unique<Workspace>(device, queue_.get())) {}

Place::~Place() = default;

int Place::threads() const { return pool_ == nullptr ? 1 : pool_->threads(); }

ThreadPool& Place::pool() {
  if (pool_ == nullptr) no_cuda_version("a loop over CPU threads");
  return *pool_;
}

}  // namespace laconic
