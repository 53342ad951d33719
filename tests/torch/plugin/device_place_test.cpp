// Where hosts work, and how their stream and the caller's wait for each other: on a pretended device of torch, which
// writes down what it is asked.

#include "torch/plugin/device_place.h"

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/support.h"

namespace laconic::test {
namespace {

using namespace plugin;

constexpr auto kPretended = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kPretended, 0);

c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }

struct Pretended {
  c10::StreamId current = 0;
  std::vector<std::string> asked;
};

Pretended& pretended() {
  static Pretended device;
  return device;
}

class PretendedGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kPretended; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(pretended().current); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(pretended().current, next.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** /*event*/, const c10::Stream& on, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    pretended().asked.push_back("record on " + std::to_string(on.id()));
  }
  void block(void* /*event*/, const c10::Stream& held) const override {
    pretended().asked.push_back("block " + std::to_string(held.id()));
  }
  void destroyEvent(void* /*event*/, const c10::DeviceIndex /*device*/) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, PretendedGuard)

using Asked = std::vector<std::string>;

TEST(CallOrder, MakesTheStreamsWaitForEachOther) {
  pretended() = {.current = 7, .asked = {}};
  {
    const CallOrder order(stream(0));
    EXPECT_EQ(pretended().current, 0);
    EXPECT_EQ(pretended().asked, (Asked{"record on 7", "block 0"}));
    const CallOrder within(stream(0));
    EXPECT_EQ(pretended().asked.size(), 2U) << "a call within a call waits for nothing";
  }
  EXPECT_EQ(pretended().current, 7);
  EXPECT_EQ(pretended().asked, (Asked{"record on 7", "block 0", "record on 0", "block 7"}));
}

TEST(CallOrder, LeavesTheCallersStreamInOrderAfterAnError) {
  pretended() = {.current = 7, .asked = {}};
  try {
    const CallOrder order(stream(0));
    throw std::runtime_error("a step that failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(pretended().current, 7);
  EXPECT_EQ(pretended().asked.back(), "block 7");
}

TEST(CallOrder, AsksNothingWhereThereIsOneStream) {
  pretended() = {};
  {
    const CallOrder same(stream(0));
    const CallOrder none(std::nullopt);
  }
  EXPECT_EQ(pretended().asked, Asked{});
}

TEST(Workplace, IsTheCpuForTensorsThere) {
  const std::vector<at::Tensor> tensors{at::zeros({3}), at::zeros({2})};
  for (const WorkStream kind : {WorkStream::own, WorkStream::torch_default}) {
    const Workplace work = workplace_for(tensors, 2, kind);
    EXPECT_EQ(work.place->device(), Device::cpu);
    EXPECT_EQ(work.place->threads(), 2);
    EXPECT_FALSE(work.stream.has_value());
    EXPECT_EQ(work.reason, "");
  }
}

TEST(Workplace, SaysWhyItIsTheCpuForOthers) {
  const at::Tensor elsewhere = at::zeros({3}, at::kMeta);
  const Workplace other = workplace_for(std::vector{elsewhere}, 1, WorkStream::torch_default);
  EXPECT_EQ(other.place->device(), Device::cpu);
  EXPECT_EQ(other.reason, "methods have no kernels for meta");
  const Workplace several = workplace_for(std::vector{elsewhere, at::zeros({3})}, 1, WorkStream::torch_default);
  EXPECT_EQ(several.place->device(), Device::cpu);
  EXPECT_EQ(several.reason, "the parameters lie on several devices");
}

}  // namespace
}  // namespace laconic::test
