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
/// architecture. `neon`, `avx2` and `avx512` need those instructions: with Highway its vectors run there, without it the
/// portable loops, compiled once more for AVX2 and AVX-512. `emulated` is Highway without any such instruction, for tests.
enum class SimdLevel : std::uint8_t { reference, emulated, portable, neon, avx2, avx512 };
inline constexpr SimdLevel kSimdLevels[] = {SimdLevel::reference, SimdLevel::emulated, SimdLevel::portable,
                                            SimdLevel::neon,      SimdLevel::avx2,     SimdLevel::avx512};

const char* simd_name(SimdLevel level);

/// Whose vectors a level runs on in this build: "none" (the reference), "compiler" or "Highway".
const char* simd_vectors(SimdLevel level);

/// The level of that name, or InvalidConfig that lists the levels of this machine.
SimdLevel simd_from_name(std::string_view name);

/// Whether this build and this processor can run the level.
bool simd_available(SimdLevel level);

/// The best available level, or the one that the environment's LACONIC_SIMD names.
SimdLevel default_simd();

struct CpuOptions {
  int threads = 0;  ///< 0: one a core
  SimdLevel simd = default_simd();
};

/// Where kernels run: a thread pool on the CPU, or a stream on a device, with scratch memory that is allocated once and
/// reused. Work given to a place runs in the order given. A place serves one caller at a time; ranks that are threads
/// have a place each.
class Place {
 public:
  explicit Place(CpuOptions options = {});
  /// On the CPU, with memory that comes from the queue: tests rehearse a device so.
  Place(CpuOptions options, std::unique_ptr<DeviceQueue> memory);
  /// A device behind its queue of work; <laconic/cuda.h> makes these.
  Place(Device device, std::unique_ptr<DeviceQueue> queue);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Device device() const { return device_; }
  SimdLevel simd() const { return simd_; }
  /// Of the pool; 1 on a device, the caller who gives it work.
  int threads() const;
  /// Its memory lies where the place works.
  Workspace& workspace() { return *workspace_; }
  /// InvalidConfig on a device, whose memory host threads must not touch.
  ThreadPool& pool();
  /// Null on the CPU, unless its memory comes from a queue.
  DeviceQueue* queue() { return queue_.get(); }

 private:
  Device device_;
  SimdLevel simd_;
  std::unique_ptr<ThreadPool> pool_;    ///< null on a device
  std::unique_ptr<DeviceQueue> queue_;  ///< may be null on the CPU; outlives the workspace, whose memory is the queue's
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace laconic
