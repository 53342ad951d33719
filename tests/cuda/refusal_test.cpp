// Every front door refuses views that do not lie where its place works, on either side: the refusal comes before the
// CPU touches a byte of the device's memory. The memory here is CPU memory with all access forbidden, so a touch
// ends the program; it needs no GPU.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <new>

#include "base/device_queue.h"
#include "base/workspace.h"
#include "cuda/refused_views.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/cuda.h"
#include "laconic/laconic.h"
#include "support/support.h"

#if LACONIC_CUDA
#include "base/cuda/queue.h"
#endif

namespace laconic::test {
namespace {

/// Memory that only its queue can read.
class ForbiddenMemory final : public DeviceQueue {
 public:
  void* allocate(std::size_t bytes) override {
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    sizes_[memory] = bytes;
    return memory;
  }
  void release(void* memory) noexcept override {
    munmap(memory, sizes_.at(memory));
    sizes_.erase(memory);
  }
  void read(void* to, const void* /*from*/, std::size_t bytes) override {
    EXPECT_EQ(bytes, sizeof(Status));
    *static_cast<Status*>(to) = status;
  }
  void write(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) override { ADD_FAILURE() << "nothing writes"; }
  std::shared_ptr<std::byte> share_memory(std::size_t /*bytes*/) override { return {}; }
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t /*bytes*/) override { return {}; }
  void copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) override { ADD_FAILURE() << "nothing copies"; }
  void clear(void* /*memory*/, std::size_t /*bytes*/) override { ADD_FAILURE() << "nothing clears"; }
  void wait() override {}

  Status status;  ///< what `read` finds

 private:
  std::map<void*, std::size_t> sizes_;
};

/// Views of CPU memory.
class CpuMemory {
 public:
  Views views() { return {floats_, doubles_, words_, halves_, widths_, bytes_, view_of(status_)}; }

 private:
  std::vector<float> floats_ = std::vector<float>(kSize);
  std::vector<double> doubles_ = std::vector<double>(kSize);
  std::vector<std::uint32_t> words_ = std::vector<std::uint32_t>(kSize);
  std::vector<std::uint16_t> halves_ = std::vector<std::uint16_t>(kSize);
  std::vector<std::uint8_t> widths_ = std::vector<std::uint8_t>(kSize);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSize);
  Status status_;
};

class OnDevice : public ::testing::Test {
 protected:
  template <class T>
  View<T> take(std::size_t count) {
    return place_.workspace().take<T>(count);
  }
  Views views_here() {
    return {take<float>(kSize),
            take<double>(kSize),
            take<std::uint32_t>(kSize),
            take<std::uint16_t>(kSize),
            take<std::uint8_t>(kSize),
            take<std::byte>(kSize),
            take<Status>(1)};
  }

  ForbiddenMemory* memory_ = new ForbiddenMemory;
  Place place_{Device::cuda, std::unique_ptr<DeviceQueue>(memory_)};
  Workspace::Scope scope_{place_.workspace()};
  CpuMemory cpu_memory_;
};

TEST_F(OnDevice, WorkspaceTakesFromTheDeviceAndReusesIt) {
  const float* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    Workspace::Scope scope(place_.workspace());
    const auto values = take<float>(1000);
    EXPECT_EQ(values.device(), Device::cuda);
    if (round == 0) first = values.data();
    EXPECT_EQ(values.data(), first);
  }
}

TEST_F(OnDevice, StatusIsReadThroughTheQueue) {
  const auto status = take<Status>(1);
  memory_->status.nonfinite = 1;
  EXPECT_EQ(read_status(place_, status).nonfinite, 1U);
  require_sound(place_, status);
  memory_->status.fault = PayloadFault::wrong_checksum;
  EXPECT_THROW(require_sound(place_, status), CorruptPayload);
  Status here;
  EXPECT_THROW(read_status(place_, view_of(here)), InvalidConfig);
}

TEST_F(OnDevice, HasNoThreads) {
  EXPECT_EQ(place_.threads(), 1);
  EXPECT_THROW(place_.pool(), InvalidConfig);
}

TEST_F(OnDevice, FrontDoorsRefuseViewsOfTheCpu) { RefusedViews{place_, views_here(), cpu_memory_.views()}.check(); }

/// The processor does not touch memory of a device.
TEST_F(OnDevice, FrontDoorsOnTheCpuRefuseViewsOfADevice) {
  Place cpu({.threads = 1});
  RefusedViews{cpu, cpu_memory_.views(), views_here()}.check();
}

#if !LACONIC_CUDA
TEST_F(OnDevice, KernelsAreRefusedInABuildWithoutCuda) {
  const auto text = message_of<InvalidConfig>([&] { fill(place_, 0.0F, take<float>(8)); });
  EXPECT_TRUE(contains(text, "fill has no CUDA version in this build")) << text;
}
#endif

TEST(Cuda, RefusesADeviceThatIsNotThere) {
  for (const int device : {-1, cuda_device_count()}) {
    const auto text = message_of<InvalidConfig>([&] { cuda_place({.device = device}); });
#if LACONIC_CUDA
    EXPECT_TRUE(contains(text, "CUDA device " + std::to_string(device) + " does not exist")) << text;
#else
    EXPECT_TRUE(contains(text, "this build has no CUDA: configure with -DLACONIC_CUDA=ON")) << text;
#endif
  }
}

#if LACONIC_CUDA
TEST(Cuda, ErrorsNameTheCall) {
  const auto text = message_of<CudaError>([] { cuda::check(cudaErrorInvalidValue, "fill"); });
  EXPECT_TRUE(contains(text, "fill failed on CUDA with cudaErrorInvalidValue")) << text;
  cuda::check(cudaSuccess, "fill");
}
#endif

}  // namespace
}  // namespace laconic::test
