// Calls on a device's memory over the transport between threads, by way of pinned memory or copied on the device. The
// device's memory is plain CPU memory here: what is tested is which bytes go where. tests/cuda/methods_test.cpp uses it
// on a device.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/device_queue.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "support/forwarding_communicator.h"
#include "support/one_order.h"
#include "support/support.h"
#include "transport/communicator_suite.h"
#include "transport/staged/communicator.h"

namespace laconic::test {
namespace {

class PlainMemory : public DeviceQueue {
 public:
  void* allocate(std::size_t bytes) override { return new std::byte[bytes]; }
  void release(void* memory) noexcept override { delete[] static_cast<std::byte*>(memory); }
  std::shared_ptr<std::byte> share_memory(std::size_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t bytes) override { return share_memory(bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    copied += bytes;
  }
  void clear(void* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void wait() override {}

  std::atomic<std::size_t> copied = 0;
};

/// Says of every call that its bytes lie on the device.
class CallsOnDevice final : public ForwardingCommunicator {
 public:
  CallsOnDevice(std::unique_ptr<Communicator> staged, std::shared_ptr<Place> place)
      : ForwardingCommunicator(std::move(staged)), place_(std::move(place)) {}

  Handle start(const Call& call) override {
    Call there = call;
    there.device = call.kind == CallKind::barrier ? Device::cpu : Device::cuda;
    return ForwardingCommunicator::start(there);
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<CallsOnDevice>(ForwardingCommunicator::duplicate(), place_);
  }

 private:
  std::shared_ptr<Place> place_;  ///< of the staged communicator
};

std::shared_ptr<Place> plain_place() { return std::make_shared<Place>(Device::cuda, std::make_unique<PlainMemory>()); }

class Staged : public testing::TestWithParam<int> {
 protected:
  static void check_calls(Communicator& communicator) {
    auto place = plain_place();
    CallsOnDevice calls(std::make_unique<staged::StagedCommunicator>(communicator, *place), place);
    constexpr std::size_t kLargest = 10'007;
    // Not dropped handles, which leave the device's memory as it was.
    check_all_reduce(calls, kLargest);
    check_reduce_scatter(calls, kLargest);
    check_all_gather(calls, kLargest);
    check_all_gather_varying(calls);
    check_all_to_all(calls, kLargest);
    check_all_to_all_varying(calls);
    check_broadcast(calls, kLargest);
    check_barrier(calls);
    check_several_in_flight(calls);
    check_many_in_a_row(calls);
    check_duplicates(calls);
    check_counter(calls);
    check_agreement(calls);
    check_no_allocation(calls);
  }
};

TEST_P(Staged, Suite) { run_ranks(GetParam(), check_calls); }
TEST_P(Staged, SuiteWithCopiesOnTheDevice) { run_ranks(GetParam(), check_calls, plain_place()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Staged, testing::Values(1, 2, 3, 7));

TEST(StagedTest, TakesBothMemoriesAndCopiesOnlyTheDevices) {
  run_ranks(2, [](Communicator& communicator) {
    auto* queue = new PlainMemory;
    Place place(Device::cuda, std::unique_ptr<DeviceQueue>(queue));
    staged::StagedCommunicator staged(communicator, place);
    EXPECT_TRUE(staged.takes(Device::cpu) && staged.takes(Device::cuda));
    EXPECT_FALSE(communicator.takes(Device::cuda));
    EXPECT_EQ(staged.description(), "threads, 2 ranks, through pinned memory");

    std::vector<std::byte> values(100, std::byte{7});
    staged.broadcast(View<std::byte>(values), 0).wait();
    EXPECT_EQ(queue->copied, 0U);
    staged.broadcast(View<std::byte>(values.data(), values.size(), Device::cuda), 0).wait();
    EXPECT_EQ(queue->copied, communicator.rank() == 0 ? 200U : 100U);  // the root's goes out too
  });
}

TEST(StagedTest, NeedsOneOrderIfItsEngineDoes) {
  run_ranks(2, [](Communicator& communicator) {
    const auto place = plain_place();
    CallLog log;
    OneOrder ordered(communicator.duplicate(), log);
    EXPECT_FALSE(staged::StagedCommunicator(ordered, *place).duplicates_overlap());
    EXPECT_TRUE(staged::StagedCommunicator(communicator, *place).duplicates_overlap());
  });
}

TEST(StagedTest, BytesOnADeviceThatAllRanksShareStayThere) {
  auto copying = plain_place();
  const auto body = [](Communicator& communicator) {
    auto* queue = new PlainMemory;
    Place place(Device::cuda, std::unique_ptr<DeviceQueue>(queue));
    staged::StagedCommunicator staged(communicator, place);
    EXPECT_TRUE(communicator.takes(Device::cuda));
    EXPECT_FALSE(communicator.reduces(Device::cuda));
    EXPECT_EQ(staged.description(), "threads, 2 ranks, on the device");
    std::vector<std::byte> values(100, std::byte{7});
    staged.broadcast(View<std::byte>(values.data(), values.size(), Device::cuda), 0).wait();
    EXPECT_EQ(queue->copied, 0U);
    std::vector<float> floats(10, 1.0F);
    staged.all_reduce(View<float>(floats.data(), floats.size(), Device::cuda), Reduction::sum).wait();
    EXPECT_EQ(queue->copied, 80U);  // out and in again: the engine adds on the CPU
    EXPECT_EQ(floats, std::vector<float>(10, 2.0F));
  };
  run_ranks(2, body, copying);
  EXPECT_EQ(static_cast<PlainMemory*>(copying->queue())->copied, 100U);
}

/// A queue whose copies fail, as those of a broken device do.
class BrokenCopies final : public PlainMemory {
 public:
  void copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) override { throw Error("the device is gone"); }
};

TEST(StagedTest, ACopyThatFailsOnTheDeviceFailsOnAllRanks) {
  const auto body = [](Communicator& communicator) {
    Place place(Device::cuda, std::make_unique<PlainMemory>());
    staged::StagedCommunicator staged(communicator, place);
    std::vector<std::byte> mine(4);
    std::vector<std::byte> all(12);
    const auto message = message_of<TransportError>([&] {
      const View<std::byte> own(mine.data(), 4, Device::cuda);
      staged.all_gather(own, View<std::byte>(all.data(), 12, Device::cuda)).wait();
    });
    EXPECT_NE(message.find("the device is gone"), std::string::npos) << message;
  };
  run_ranks(3, body, std::make_shared<Place>(Device::cuda, std::make_unique<BrokenCopies>()));
}

/// The payload alone crosses: gaps between ranges do not.
TEST(StagedTest, CopiesRangesNotGaps) {
  run_ranks(2, [](Communicator& communicator) {
    auto* queue = new PlainMemory;
    Place place(Device::cuda, std::unique_ptr<DeviceQueue>(queue));
    staged::StagedCommunicator staged(communicator, place);
    std::vector<std::byte> sent(10'000, static_cast<std::byte>(communicator.rank() + 1));
    std::vector<std::byte> received(10'000);
    const std::vector<ByteRange> ranges{{0, 10}, {9'000, 10}};
    staged
        .all_to_all_varying(View<const std::byte>(sent.data(), sent.size(), Device::cuda), ranges,
                            View<std::byte>(received.data(), received.size(), Device::cuda), ranges)
        .wait();
    EXPECT_EQ(queue->copied, 40U);
    EXPECT_EQ(received[0], std::byte{1});
    EXPECT_EQ(received[9'009], std::byte{2});
    EXPECT_EQ(received[5'000], std::byte{0});
  });
}

TEST(StagedTest, RefusesViewsOnTwoDevices) {
  run_ranks(1, [](Communicator& communicator) {
    Place place(Device::cuda, std::make_unique<PlainMemory>());
    staged::StagedCommunicator staged(communicator, place);
    std::vector<std::byte> bytes(8);
    const auto text = message_of<InvalidConfig>([&] {
      staged.all_gather(View<const std::byte>(bytes), View<std::byte>(bytes.data(), 8, Device::cuda)).wait();
    });
    EXPECT_EQ(text, "view mine lies on cpu, all on cuda: pass views on one device");
  });
}

TEST(StagedTest, ADeadPeerEndsTheWaitOnTheDeviceToo) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& communicator) {
                           Place place(Device::cuda, std::make_unique<PlainMemory>());
                           staged::StagedCommunicator staged(communicator, place);
                           if (communicator.rank() == 1) throw InvalidConfig("rank 1 gives up");
                           std::vector<std::byte> bytes(8);
                           staged.broadcast(View<std::byte>(bytes.data(), 8, Device::cuda), 0).wait();
                           staged.broadcast(View<std::byte>(bytes.data(), 8, Device::cuda), 1).wait();
                         }),
               InvalidConfig);
}

}  // namespace
}  // namespace laconic::test
