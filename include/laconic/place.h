#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "laconic/view.h"

namespace laconic {

class DeviceQueue;
class Workspace;
class ThreadPool;

/// Which implementation of the kernels runs. All give the same bits.
///
/// `reference` is the specification. `portable` has loops that the compiler vectorises for every processor of the
/// architecture. `neon`, `avx2` and `avx512` need those instructions. They run Highway's vectors in a build with
/// Highway; otherwise they run the portable loops, compiled again for AVX2 and AVX-512. `emulated` is Highway without
/// vector instructions, for tests.
enum class SimdLevel : std::uint8_t { reference, emulated, portable, neon, avx2, avx512 };
inline constexpr SimdLevel kSimdLevels[] = {SimdLevel::reference, SimdLevel::emulated, SimdLevel::portable,
                                            SimdLevel::neon,      SimdLevel::avx2,     SimdLevel::avx512};

const char* simd_name(SimdLevel level);

/// Who vectorises a level in this build: "none" (the reference), "compiler" or "Highway".
const char* simd_vectors(SimdLevel level);

/// The level of that name. Throws InvalidConfig, which lists the levels of this machine, for any other name.
SimdLevel simd_from_name(std::string_view name);

/// Whether this build and this processor can run the level.
bool simd_available(SimdLevel level);

/// The level that the environment variable LACONIC_SIMD names, or the best available one if it is not set.
SimdLevel default_simd();

struct CpuOptions {
  int threads = 0;  ///< 0: one per core
  SimdLevel simd = default_simd();
};

/// Where kernels run: a thread pool on the CPU or a stream on a device, with scratch memory that is allocated once and
/// reused. A place runs its work in the order in which it was submitted. It serves one caller at a time, so each rank
/// that is a thread has its own place.
class Place {
 public:
  explicit Place(CpuOptions options = {});
  /// On the CPU, with memory that comes from the queue. Tests use it to simulate a device.
  Place(CpuOptions options, std::unique_ptr<DeviceQueue> memory);
  /// On a device that is reached through its queue of work; <laconic/cuda.h> makes these.
  Place(Device device, std::unique_ptr<DeviceQueue> queue);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Device device() const { return device_; }
  SimdLevel simd() const { return simd_; }
  /// Threads of the pool. On a device 1: the caller that submits the work.
  int threads() const;
  /// Scratch memory, on the device where the place works.
  Workspace& workspace() { return *workspace_; }
  /// Throws InvalidConfig on a device, because CPU threads must not touch its memory.
  ThreadPool& pool();
  /// Null on the CPU, unless its memory comes from a queue.
  DeviceQueue* queue() { return queue_.get(); }

 private:
  Device device_;
  SimdLevel simd_;
  std::unique_ptr<ThreadPool> pool_;    ///< null on a device
  std::unique_ptr<DeviceQueue> queue_;  ///< may be null on the CPU; outlives the workspace, which allocates from it
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace laconic
