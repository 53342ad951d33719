// Calls on views of a place whose work is done later, over an engine that moves CPU memory and over one that reaches
// the device: both see what the place computed, and the place sees what arrived.

#include "transport/staged/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "base/device_queue.h"
#include "laconic/threads.h"
#include "support/forwarding_communicator.h"

namespace laconic::test {
namespace {

/// A device whose memory is ordinary, and whose work is done when somebody waits for it.
class LateQueue final : public DeviceQueue {
 public:
  void* allocate(std::size_t bytes) override { return ::operator new(bytes, std::align_val_t(64)); }
  void release(void* memory) noexcept override {
    wait();
    ::operator delete(memory, std::align_val_t(64));
  }
  std::shared_ptr<std::byte> share_memory(std::size_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t bytes) override { return share_memory(bytes); }
  void read(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    wait();
  }
  void write(void* to, const void* from, std::size_t bytes) override { read(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    work_.push_back([=] { std::memcpy(to, from, bytes); });
  }
  void clear(void* memory, std::size_t bytes) override {
    work_.push_back([=] { std::memset(memory, 0, bytes); });
  }
  void wait() override {
    for (const auto& each : work_) each();
    work_.clear();
  }

 private:
  std::vector<std::function<void()>> work_;
};

/// An engine that reaches the device. Counts the calls that came with views there.
class DeviceEngine final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  bool takes(Device /*device*/) const override { return true; }
  bool reduces(Device /*device*/) const override { return true; }
  Handle start(const Call& call) override {
    if (call.device != Device::cpu) ++on_device;
    Call here = call;
    here.device = Device::cpu;
    return ForwardingCommunicator::start(here);
  }

  int on_device = 0;
};

constexpr std::size_t kCount = 5;

View<float> on_device(std::vector<float>& memory) { return {memory.data(), memory.size(), Device::cuda}; }

/// Two calls, the second on what the first brought, with work of the place before, between and after them.
void check(Communicator& engine) {
  Place place(Device::cuda, std::make_unique<LateQueue>());
  staged::StagedCommunicator staged(engine, place);
  ASSERT_TRUE(staged.takes(Device::cuda));
  const auto ranks = static_cast<std::size_t>(staged.size());
  const std::vector<float> computed(kCount, static_cast<float>(1 + staged.rank()));
  std::vector<float> mine(kCount, -1.0F);
  std::vector<float> all(kCount * ranks, -1.0F);
  place.queue()->copy(mine.data(), computed.data(), kCount * sizeof(float));
  staged.all_gather(as_bytes(View<const float>(on_device(mine))), as_writable_bytes(on_device(all))).wait();
  std::vector<float> sum(kCount, -1.0F);
  const auto last = all.data() + kCount * (ranks - 1);
  place.queue()->copy(sum.data(), last, kCount * sizeof(float));
  staged.all_reduce(on_device(sum), Reduction::sum).wait();
  place.queue()->wait();
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(all[r * kCount + i], static_cast<float>(1 + r));
  }
  EXPECT_EQ(sum, std::vector<float>(kCount, static_cast<float>(ranks * ranks)));
}

TEST(Staged, FollowsThePlaceOverAnEngineForTheCpu) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [](Communicator& engine) { check(engine); });
  }
}

TEST(Staged, FollowsThePlaceOverAnEngineForTheDevice) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Communicator& communicator) {
      DeviceEngine engine(communicator);
      check(engine);
      EXPECT_EQ(engine.on_device, ranks == 1 ? 0 : 2) << "one rank sends nothing";
    });
  }
}

TEST(Staged, SaysHowBytesTravel) {
  run_ranks(1, [](Communicator& communicator) {
    Place place(Device::cuda, std::make_unique<LateQueue>());
    DeviceEngine engine(communicator);
    EXPECT_EQ(staged::StagedCommunicator(engine, place).description(), communicator.description() + ", on the device");
    EXPECT_EQ(staged::StagedCommunicator(communicator, place).description(), "threads, 1 rank, through pinned memory");
  });
}

}  // namespace
}  // namespace laconic::test
