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
#include "kernels/bitpack/bitpack.h"
#include "kernels/checksum/checksum.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/sparse/draw.h"
#include "kernels/sparse/indices.h"
#include "kernels/sparse/sparse.h"
#include "kernels/vote/abstain.h"
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
  constexpr std::size_t kSize = 64;
  std::vector<float> here(kSize);
  std::vector<std::uint32_t> words(kSize);
  std::vector<std::uint16_t> halves(kSize);
  std::vector<std::byte> bytes(kSize);
  Status host_status;
  const auto floats = take<float>(kSize);
  const auto status = take<Status>(1);
  const std::array<View<const float>, 2> parts{floats, here};
  const std::array<float, 2> weights{0.5F, 0.5F};
  const std::array<View<const std::uint32_t>, 1> ballots{words};
  const std::array<OpenBallot, 1> open_ballots{OpenBallot{words, words}};
  const std::array<View<const std::byte>, 1> payloads{bytes};
  std::array<std::uint64_t, 1> lengths{};
  const std::array<Block, 1> blocks{Block{.offset = 0, .size = kSize, .start = 0, .count = kSize}};
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"values", [&] { fill(place_, 0.0F, here); }},
      {"to", [&] { copy(place_, floats, here); }},
      {"x", [&] { axpy(place_, 1.0F, here, floats); }},
      {"values", [&] { divide(place_, 2.0F, here); }},
      {"status", [&] { find_nonfinite(place_, floats, view_of(host_status)); }},
      {"part", [&] { sum_in_rank_order(place_, parts, 2.0F, floats, status); }},
      {"part", [&] { weighted_sum(place_, parts, weights, floats, status); }},
      {"status", [&] { spoil_if_nonfinite(place_, floats, view_of(host_status)); }},
      {"of a step", [&] { sgd_step(place_, {}, here, {}, floats); }},
      {"of a step", [&] { adam_step(place_, {}, here, floats, floats, floats); }},
      {"of a step", [&] { blend(place_, 0.5F, here, floats); }},
      {"of a step", [&] { running_mean(place_, 0.5F, here, floats, floats); }},
      {"of a step", [&] { subtract_scaled(place_, floats, 0.5F, floats, here); }},
      {"of a step", [&] { scale(place_, 0.5F, here); }},
      {"of a step", [&] { scaled_difference(place_, 0.5F, here, floats, floats, status); }},
      {"of a step", [&] { subtract_difference(place_, floats, here, floats); }},
      {"status", [&] { add_residual(place_, floats, floats, floats, view_of(host_status)); }},
      {"of a step", [&] { add_step_to_error(place_, {}, floats, {floats, here, floats, {}}, status); }},
      {"values", [&] { norm(place_, here, Norm::l2, floats.sub(0, 1), status); }},
      {"status", [&] { sum_of_squares(place_, floats, take<double>(1), view_of(host_status)); }},
      {"y", [&] { squared_distance(place_, floats, here); }},
      {"values", [&] { mean_magnitude(place_, here); }},
      {"out", [&] { to_16bit(place_, floats, ValueFormat::f16, halves, status); }},
      {"values", [&] { from_16bit(place_, halves, ValueFormat::f16, floats); }},
      {"out", [&] { round_through_16bit(place_, ValueFormat::bf16, floats, here, status); }},
      {"out", [&] { gather_blocks(place_, floats, blocks, 0, here); }},
      {"values", [&] { scatter_blocks(place_, here, blocks, 0, floats); }},
      {"indices", [&] { scatter_add(place_, ConstSparseView{words, floats}, floats); }},
      {"indices", [&] { scatter(place_, ConstSparseView{words, floats}, floats); }},
      {"indices", [&] { gather(place_, floats, words, floats); }},
      {"indices", [&] { indices_in_scopes(place_, {}, words, take<std::uint32_t>(kSize)); }},
      {"ballot", [&] { vote(place_, ballots, {}, take<std::uint32_t>(kSize)); }},
      {"margins", [&] { abstention_margins(place_, floats, 1.0F, here); }},
      {"vote", [&] { silence(place_, floats, here); }},
      {"ballot.signs",
       [&] {
         vote_with_abstentions(place_, open_ballots, {}, take<std::uint32_t>(kSize), take<std::uint32_t>(kSize));
       }},
      {"bytes", [&] { checksum(place_, bytes); }},
      {"packed", [&] { pack_fields(place_, take<std::uint32_t>(kSize), 8, bytes); }},
      {"fields", [&] { unpack_fields(place_, take<std::byte>(kSize), 8, words); }},
      {"indices", [&] { count_below(place_, words, {}, {}); }},
      {"indices", [&] { read_indices(place_, words, {}, {}); }},
      {"indices", [&] { draw_indices(place_, {}, {}, words); }},
      {"sum", [&] { merge_sum(place_, {}, {words, floats}); }},
      {"indices", [&] { gaps_of_indices(place_, words, 0, kSize, words, {}); }},
      {"gaps", [&] { indices_of_gaps(place_, 0, kSize, words); }},
      {"indices", [&] { indices_from_first(place_, words, 0, words); }},
      {"indices", [&] { indices_of_relative(place_, words, 0, kSize, words); }},
      {"words", [&] { bitmap_of_indices(place_, take<std::uint32_t>(kSize), 0, words); }},
      {"words", [&] { indices_of_bitmap(place_, words, 0, 32 * kSize, words); }},
      {"payload", [&] { seal_payload(place_, {}, bytes, status); }},
      {"payload", [&] { flag_payload(place_, bytes, status); }},
      {"payload", [&] { read_lengths(place_, {payloads}, lengths); }},
      {"payload", [&] { dense::encode(place_, floats.sub(0, 1), ValueFormat::f32, bytes, status); }},
      {"payload", [&] { dense::decode(place_, bytes, ValueFormat::f32, floats, status); }},
      {"payload", [&] { block::encode(place_, floats, blocks, 0, 1, ValueFormat::f32, bytes, status); }},
      {"indices", [&] { sparse::encode(place_, {words, floats}, {0, kSize}, ValueFormat::f32, bytes, status); }},
      {"indices", [&] { sparse::decode(place_, bytes, {0, 1}, ValueFormat::f32, {words, floats}, status); }},
  };
  for (const auto& [view, call] : calls) {
    const auto text = message_of<InvalidConfig>(call);
    EXPECT_TRUE(contains(text, "view " + view + " lies on cpu, the place works on cuda")) << view << ": " << text;
  }
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
