// A place on a device, and everything that has no version for it: the refusal comes before the host touches a byte of
// the device's memory. The memory here is the host's own with all access forbidden, so a touch ends the program; it
// needs no GPU.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "base/device_queue.h"
#include "base/workspace.h"
#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/sparse.h"
#include "codecs/uniform.h"
#include "exchange/dense_sum.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/sparse/indices.h"
#include "kernels/sparse/sparse.h"
#include "kernels/vote/vote.h"
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

  Status status;  ///< what `read` finds

 private:
  std::map<void*, std::size_t> sizes_;
};

class OnDevice : public ::testing::Test {
 protected:
  template <class T>
  View<T> take(std::size_t count) {
    return place_.workspace().take<T>(count);
  }
  SparseView take_entries(std::size_t count) { return {take<std::uint32_t>(count), take<float>(count)}; }

  ForbiddenMemory* memory_ = new ForbiddenMemory;
  Place place_{Device::cuda, std::unique_ptr<DeviceQueue>(memory_)};
  Workspace::Scope scope_{place_.workspace()};
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

TEST_F(OnDevice, TwinsRefuseViewsOfTheHost) {
  std::vector<float> here(8);
  const auto text = message_of<InvalidConfig>([&] { fill(place_, 0.0F, here); });
  EXPECT_TRUE(contains(text, "view values lies on cpu, the place works on cuda")) << text;
}

TEST_F(OnDevice, WhatHasNoTwinIsRefusedBeforeMemoryIsTouched) {
  constexpr std::size_t kSize = 600;
  const auto status = take<Status>(1);
  const auto floats = take<float>(kSize);
  const auto words = take<std::uint32_t>(kSize);
  const auto halves = take<std::uint16_t>(kSize);
  const auto widths = take<std::uint8_t>(kSize);
  const auto bytes = take<std::byte>(8 * kSize);
  const SparseView entries = take_entries(kSize);
  const std::array<View<const float>, 2> parts{floats, floats};
  const std::array<float, 2> weights{0.5F, 0.5F};
  const std::array<View<const std::uint32_t>, 2> ballots{words, words};
  const std::array<ConstSparseView, 1> sparse_parts{entries};
  const std::array<Block, 1> blocks{Block{.offset = 0, .size = kSize, .start = 0, .count = 1}};
  const Layout layout(kSize);
  const sparse::IndexRange range{0, kSize};
  PayloadHeader header{};
  const auto communicators = thread_communicators(1);

  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"sum_in_rank_order", [&] { sum_in_rank_order(place_, parts, 2.0F, floats, status); }},
      {"weighted_sum", [&] { weighted_sum(place_, parts, weights, floats, status); }},
      {"kernels/bitpack/bitpack", [&] { pack_fields(place_, words, 8, bytes.sub(0, kSize)); }},
      {"kernels/bitpack/bitpack", [&] { unpack_fields(place_, bytes.sub(0, kSize), 8, words); }},
      {"kernels/block/block", [&] { gather_blocks(place_, floats, blocks, 0, floats.sub(0, 1)); }},
      {"kernels/block/block", [&] { scatter_blocks(place_, floats.sub(0, 1), blocks, 0, floats); }},
      {"kernels/checksum/checksum", [&] { checksum(place_, bytes); }},
      {"kernels/checksum/checksum", [&] { checksum_with_hole(place_, bytes, 4); }},
      {"kernels/convert/convert", [&] { to_16bit(place_, floats, ValueFormat::f16, halves, status); }},
      {"kernels/convert/convert", [&] { from_16bit(place_, halves, ValueFormat::f16, floats); }},
      {"kernels/convert/convert", [&] { add_from_16bit(place_, halves, ValueFormat::bf16, floats); }},
      {"kernels/convert/convert", [&] { round_through_16bit(place_, ValueFormat::bf16, floats, floats, status); }},
      {"kernels/norm/norm", [&] { norm(place_, floats, Norm::l2, floats.sub(0, 1), status); }},
      {"kernels/norm/norm", [&] { sum_of_squares(place_, floats, take<double>(1), status); }},
      {"kernels/sparse/sparse", [&] { scatter_add(place_, entries, floats); }},
      {"kernels/sparse/sparse", [&] { scatter(place_, entries, floats); }},
      {"kernels/sparse/sparse", [&] { gather(place_, floats, words, floats); }},
      {"kernels/sparse/sparse", [&] { merge_sum(place_, sparse_parts, entries); }},
      {"kernels/sparse/indices", [&] { gaps_of_indices(place_, words, 0, kSize, words, widths.sub(0, 2)); }},
      {"kernels/sparse/indices", [&] { indices_of_gaps(place_, 0, kSize, words); }},
      {"kernels/sparse/indices", [&] { indices_from_first(place_, words, 0, words); }},
      {"kernels/sparse/indices", [&] { indices_of_relative(place_, words, 0, kSize, words); }},
      {"kernels/sparse/indices", [&] { bitmap_of_indices(place_, words, 0, words); }},
      {"kernels/sparse/indices", [&] { indices_of_bitmap(place_, words, 0, 32 * kSize - 1, words); }},
      {"kernels/topk/topk", [&] { error_feedback_topk(place_, floats, floats, floats, entries, status); }},
      {"kernels/topk/topk", [&] { split_largest(place_, entries, entries, take_entries(0)); }},
      {"kernels/regtopk/regtopk",
       [&] {
         error_feedback_regtopk(place_, floats, floats, floats, {words, floats, floats}, {}, entries, status);
       }},
      {"kernels/vote/vote", [&] { vote(place_, ballots, {}, words); }},
      {"codecs/payload", [&] { seal_payload(place_, header, bytes, status); }},
      {"codecs/payload", [&] { open_payload(place_, bytes, Codec::dense, header, status); }},
      {"codecs/uniform",
       [&] { uniform::encode(place_, floats, layout, 0, kSize, floats.sub(0, 1), 4, {}, bytes, status); }},
      {"codecs/sparse", [&] { sparse::decode(place_, bytes, range, ValueFormat::f32, entries, status); }},
      {"kernels/sparse/indices", [&] { sparse::encode(place_, entries, range, ValueFormat::f32, bytes, status); }},
      {"sum_in_rank_order", [&] { dense::encode(place_, floats, ValueFormat::f32, bytes, status); }},
      {"codecs/payload", [&] { dense::decode(place_, bytes, ValueFormat::f32, floats, status); }},
      {"kernels/block/block", [&] { block::encode(place_, floats, blocks, 0, 1, ValueFormat::f32, bytes, status); }},
      {"an exchange", [&] { DenseSum(*communicators[0], place_, kSize); }},
  };
  for (const auto& [what, call] : calls) {
    const auto text = message_of<InvalidConfig>(call);
    EXPECT_TRUE(contains(text, what + " has no CUDA version yet: copy its views to the CPU")) << what << ": " << text;
  }
}

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
