// A transport as a program of its own would write it, with public headers only, and what it is given to start.

#include <gtest/gtest.h>
#include <laconic/laconic.h>

#include "support/support.h"

namespace laconic::test {
namespace {

using namespace std::chrono_literals;

/// Done at once; notes what its handle asks.
class Ended final : public Operation {
 public:
  bool test() override { return true; }
  void wait(Milliseconds timeout) override { waited = timeout; }
  void release() noexcept override { ++released; }

  Milliseconds waited{0};
  int released = 0;
};

/// Rank 1 of three, without the others: keeps the calls that it is to start.
class Recorder final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  Handle start(const Call& call) override {
    calls.push_back(call);
    return {&operation, timeout()};
  }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Recorder>(); }
  std::unique_ptr<SharedCounter> make_counter() override { return nullptr; }
  void fail(std::string_view) noexcept override {}
  std::string description() const override { return "recorder"; }

  std::vector<Call> calls;
  Ended operation;
};

struct Buffers {
  std::vector<float> floats = std::vector<float>(12);
  std::vector<float> own = std::vector<float>(4);
  std::vector<std::byte> small = std::vector<std::byte>(6);
  std::vector<std::byte> large = std::vector<std::byte>(18);
  std::vector<ByteRange> ranges{{0, 5}, {5, 6}, {11, 7}};
};

/// Everything but the ranges, which are spans.
void expect_call(const Call& found, const Call& expected) {
  EXPECT_EQ(describe(expected), describe(found));
  EXPECT_EQ(expected.kind, found.kind);
  EXPECT_EQ(expected.reduction, found.reduction);
  EXPECT_EQ(expected.root, found.root);
  EXPECT_EQ(expected.bytes, found.bytes);
  EXPECT_EQ(expected.send, found.send);
  EXPECT_EQ(expected.receive, found.receive);
  EXPECT_EQ(expected.send_ranges.data(), found.send_ranges.data());
  EXPECT_EQ(expected.send_ranges.size(), found.send_ranges.size());
  EXPECT_EQ(expected.receive_ranges.data(), found.receive_ranges.data());
  EXPECT_EQ(expected.receive_ranges.size(), found.receive_ranges.size());
}

TEST(Call, IsWhatACollectiveStarts) {
  Buffers b;
  auto* floats = reinterpret_cast<std::byte*>(b.floats.data());
  auto* own = reinterpret_cast<std::byte*>(b.own.data());
  Recorder recorder;
  recorder.all_reduce(b.floats, Reduction::max).wait();
  recorder.reduce_scatter(b.floats, b.own).wait();
  recorder.all_gather(b.small, b.large).wait();
  recorder.all_gather_varying(b.small, b.large, b.ranges).wait();
  recorder.all_to_all(b.large, b.large).wait();
  recorder.all_to_all_varying(b.large, b.ranges, b.large, b.ranges).wait();
  recorder.broadcast(b.small, 2).wait();
  recorder.barrier().wait();
  ASSERT_EQ(8U, recorder.calls.size());
  std::byte* small = b.small.data();
  std::byte* large = b.large.data();
  expect_call(recorder.calls[0],
              {.kind = CallKind::all_reduce, .reduction = Reduction::max, .bytes = 48, .receive = floats});
  expect_call(recorder.calls[1], {.kind = CallKind::reduce_scatter, .bytes = 16, .send = floats, .receive = own});
  expect_call(recorder.calls[2], {.kind = CallKind::all_gather, .bytes = 6, .send = small, .receive = large});
  expect_call(recorder.calls[3], {.kind = CallKind::all_gather_varying,
                                  .bytes = 18,
                                  .send = small,
                                  .receive = large,
                                  .receive_ranges = b.ranges});
  expect_call(recorder.calls[4], {.kind = CallKind::all_to_all, .bytes = 6, .send = large, .receive = large});
  expect_call(recorder.calls[5], {.kind = CallKind::all_to_all_varying,
                                  .send = large,
                                  .receive = large,
                                  .send_ranges = b.ranges,
                                  .receive_ranges = b.ranges});
  expect_call(recorder.calls[6], {.kind = CallKind::broadcast, .root = 2, .bytes = 6, .receive = small});
  expect_call(recorder.calls[7], {.kind = CallKind::barrier});
  EXPECT_EQ(8, recorder.operation.released);
}

TEST(Call, IsNotStartedForWrongViews) {
  Buffers b;
  Recorder recorder;
  const View<float> device(b.floats.data(), b.floats.size(), Device::cuda);
  const auto refused = [&](const char* part, auto&& call) {
    const std::string text = message_of<InvalidConfig>([&] { call().wait(); });
    EXPECT_TRUE(contains(text, part)) << text;
    EXPECT_TRUE(recorder.calls.empty()) << text;
  };
  refused("view values lies on cuda", [&] { return recorder.all_reduce(device, Reduction::sum); });
  refused("view values lies on cuda", [&] { return recorder.reduce_scatter(device, b.own); });
  refused("view own lies on cuda", [&] { return recorder.reduce_scatter(b.floats, device.sub(0, 4)); });
  refused("values has 12 entries, expected 36", [&] { return recorder.reduce_scatter(b.floats, b.floats); });
  refused("all has 6 entries, expected 54", [&] { return recorder.all_gather(b.large, b.small); });
  refused("mine has 18 entries, expected 6", [&] { return recorder.all_gather_varying(b.large, b.large, b.ranges); });
  refused("ranges[1] is 6 bytes from byte 5 on, its view has 6",
          [&] { return recorder.all_gather_varying(b.small, b.small, b.ranges); });
  std::vector<ByteRange> other = b.ranges;
  other[1].bytes = 2;
  refused("send_ranges[1] has 6 bytes, receive_ranges[1] has 2",
          [&] { return recorder.all_to_all_varying(b.large, b.ranges, b.large, other); });
}

TEST(Call, HasTheCommunicatorsTimeout) {
  Recorder recorder;
  recorder.set_timeout(1234ms);
  recorder.barrier().wait();
  EXPECT_EQ(1234ms, recorder.operation.waited);
}

}  // namespace
}  // namespace laconic::test
