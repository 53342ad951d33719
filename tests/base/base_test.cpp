#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>

#include "base/buffer.h"
#include "base/check.h"
#include "base/device_queue.h"
#include "base/keep.h"
#include "base/layout.h"
#include "base/memory.h"
#include "base/message_memory.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "base/workspace.h"
#include "laconic/laconic.h"
#include "support/limited.h"
#include "support/support.h"

namespace laconic {
namespace {

using test::contains;
using test::message_of;

TEST(Philox, MatchesThePublishedSevenRoundVectors) {
  // Known answers of Random123 (kat_vectors, philox4x32 with 7 rounds).
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (PhiloxBlock{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (PhiloxBlock{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxBlock{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(MessageMemory, LivesAsLongAsAnOwnerOfItsParts) {
  MessageMemory memory;
  memory.reserve(1000);
  const View<std::byte> whole = memory.view(1000);
  EXPECT_EQ(0U, reinterpret_cast<std::uintptr_t>(whole.data()) % 64);
  EXPECT_EQ(nullptr, message_owner(whole.data() + 1, 1000));
  EXPECT_EQ(nullptr, message_owner(whole.data() + 1001, 0));
  const std::vector<std::byte> other(1000);
  EXPECT_EQ(nullptr, message_owner(other.data(), other.size()));
  std::shared_ptr<std::byte> owner = message_owner(whole.data() + 100, 900);
  ASSERT_NE(nullptr, owner);
  memory = {};
  whole[999] = std::byte{7};  // under ASan: not freed yet
  EXPECT_NE(nullptr, message_owner(whole.data(), 1000));
  owner.reset();
  EXPECT_EQ(nullptr, message_owner(whole.data(), 1000));
}

TEST(MessageMemory, GrowsAndKeepsWhatIsLarger) {
  MessageMemory memory;
  memory.reserve(100);
  memory.reserve(5000);
  const std::byte* begin = memory.view(5000).data();
  memory.reserve(200);
  EXPECT_EQ(begin, memory.view(200).data());
  EXPECT_NE(nullptr, message_owner(begin, 5000));
}

// Runs that are continued draw with these seeds.
TEST(Philox, SeedsThatAreDerivedStayTheSame) {
  EXPECT_EQ(derived_seed(42, 0, Purpose::group_seed), 42U);
  EXPECT_EQ(derived_seed(42, 1, Purpose::group_seed), 0x10db'9c5c'8b25'df9cU);
  EXPECT_EQ(derived_seed(42, 3, Purpose::slice_seed), 0x62f6'fa2e'26b3'82a9U);
}

TEST(Philox, CounterWordsDoNotOverlap) {
  const RandomStream a{.seed = 1, .step = 2, .rank = 3, .tensor = 4, .purpose = Purpose::rounding};
  EXPECT_EQ(a.counter(0xAB'0000'0005), (PhiloxBlock{5, 4 << 8 | 0xAB, 2, 1 << 24 | 3}));
  EXPECT_NE(a.block(7), a.with(Purpose::rounding_tail).block(7));
  EXPECT_NE(a.block(7), a.of_tensor(5).block(7));
}

TEST(Philox, DrawsAreDistinctWordsOfTheirBlocks) {
  const RandomStream stream{.seed = 99, .step = 1, .rank = 0, .tensor = 0, .purpose = Purpose::test};
  for (std::uint64_t i = 0; i < 640; ++i) {
    EXPECT_EQ(draw32(stream, i), stream.block(i / 64 * 16 + i % 16)[i % 64 / 16]);
    const auto half = i % 128 / 16;
    const auto word = stream.block(i / 128 * 16 + i % 16)[half / 2];
    EXPECT_EQ(draw16(stream, i), half % 2 == 0 ? word & 0xFFFF : word >> 16);
  }
}

TEST(Philox, DrawBelowIsUniform) {
  // Chi-square with 9 degrees of freedom: above 40 by chance once in 10^5 runs, and the stream is fixed anyway.
  const RandomStream stream{.seed = 5, .step = 0, .rank = kSharedRank, .tensor = 0, .purpose = Purpose::block_start};
  std::vector<double> seen(10, 0.0);
  for (std::uint64_t i = 0; i < 100'000; ++i) seen[draw_below(stream, i, 10)] += 1;
  double chi_square = 0;
  for (const double count : seen) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_square, 40.0);
}

TEST(Keep, CountsAsThePagesSay) {
  EXPECT_EQ(keep_count(0.01, 1000), 10U);
  EXPECT_EQ(keep_count(0.01, 10), 1U);
  EXPECT_EQ(keep_count(1.0, 7), 7U);
  EXPECT_EQ(keep_count(0.5, 0), 0U);
  EXPECT_EQ(block_count(64, 6400), 100U);
  EXPECT_EQ(block_count(64, 3), 1U);
  EXPECT_EQ(levels_of(2), 1U);
  EXPECT_EQ(levels_of(16), 32767U);
}

TEST(Keep, RefusalsNameValueRangeAndRemedy) {
  const auto keep = message_of<InvalidConfig>([] { keep_count(1.5, 10); });
  EXPECT_TRUE(contains(keep, "keep must be in (0, 1], got 1.5")) << keep;
  EXPECT_TRUE(contains(keep, "0.01 for 1 %")) << keep;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { keep_count(std::nan(""), 10); }), "got nan"));
  const auto bits = message_of<InvalidConfig>([] { levels_of(1); });
  EXPECT_TRUE(contains(bits, "bits must be in 2..16, got 1")) << bits;
  EXPECT_TRUE(contains(bits, "use a sign method")) << bits;
  EXPECT_THROW(block_count(0.5, 10), InvalidConfig);
}

TEST(Check, ShowsBothSides) {
  const auto text = message_of<BrokenInvariant>([] { LACONIC_CHECK(2 + 2 == 5); });
  EXPECT_TRUE(contains(text, "2 + 2 == 5")) << text;
  EXPECT_TRUE(contains(text, "4 against 5")) << text;
}

TEST(Check, ViewRefusalsNameSizes) {
  const auto text = message_of<InvalidConfig>([] { require_size("gradient", 10, 12); });
  EXPECT_TRUE(contains(text, "view gradient has 10 entries, expected 12")) << text;
  EXPECT_TRUE(contains(message_of<InvalidConfig>([] { require_same_device("gradient", Device::cuda, Device::cpu); }),
                       "lies on cuda, the place works on cpu"));
}

TEST(Simd, UnknownLevelListsWhatThereIs) {
  const auto text = message_of<InvalidConfig>([] { simd_from_name("mmx"); });
  EXPECT_TRUE(contains(text, "reference") && contains(text, "got mmx")) << text;
}

TEST(Simd, NoBuildRunsWithoutVectorsUnlessAsked) {
  const char* forced = std::getenv("LACONIC_SIMD");
  const std::string saved = forced == nullptr ? "" : forced;
  unsetenv("LACONIC_SIMD");
  const SimdLevel best = default_simd();
  setenv("LACONIC_SIMD", "reference", 1);
  const SimdLevel asked = default_simd();
  saved.empty() ? unsetenv("LACONIC_SIMD") : setenv("LACONIC_SIMD", saved.c_str(), 1);
  EXPECT_STRNE(simd_vectors(best), "none") << simd_name(best);
  EXPECT_STREQ(simd_vectors(asked), "none") << simd_name(asked);
  EXPECT_TRUE(simd_available(SimdLevel::portable));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_NE(best, SimdLevel::portable);
  }
#endif
}

TEST(Place, RefusesAnImpossibleThreadCount) {
  EXPECT_TRUE(
      contains(message_of<InvalidConfig>([] { Place({.threads = -1}); }), "threads must be in 0..1024, got -1"));
}

TEST(Layout, CutsIntoPieces) {
  const std::vector<std::uint64_t> sizes{5, 0, 7, 100};
  const Layout layout(sizes);
  EXPECT_EQ(layout.size(), 112U);
  EXPECT_EQ(layout.tensor_at(4), 0U);
  EXPECT_EQ(layout.tensor_at(5), 2U);
  EXPECT_EQ(layout.cut(45, 32), 44U);  // tensor 3 starts at 12
  EXPECT_EQ(layout.cut(4, 32), 0U);
  EXPECT_EQ(layout.cut(112, 32), 112U);
  std::vector<std::vector<std::uint64_t>> slices;
  layout.for_each_slice(3, 20, [&](Slice p) { slices.push_back({p.tensor, p.first, p.offset, p.count}); });
  EXPECT_EQ(slices, (std::vector<std::vector<std::uint64_t>>{{0, 3, 3, 2}, {2, 0, 5, 7}, {3, 0, 12, 8}}));
}

TEST(Layout, PiecesSkipEmptyTensorsEverywhere) {
  const std::vector<std::uint64_t> sizes{0, 3, 0, 0, 2, 0};
  const Layout layout(sizes);
  std::uint64_t seen = 0;
  layout.for_each_slice(0, layout.size(), [&](Slice p) {
    EXPECT_EQ(p.offset, seen);
    EXPECT_GT(p.count, 0U);
    seen += p.count;
  });
  EXPECT_EQ(seen, 5U);
}

TEST(ThreadPool, RunsEachPartOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<std::atomic<int>> hits(37);
      pool.run(hits.size(), [&](std::size_t part) { ++hits[part]; });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, PassesOnAnException) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(8,
                        [](std::size_t part) {
                          if (part == 5) throw InvalidConfig("part 5");
                        }),
               InvalidConfig);
  std::atomic<int> ran{0};
  pool.run(8, [&](std::size_t) { ++ran; });
  EXPECT_EQ(ran.load(), 8);
}

TEST(ThreadPool, EndsWhatItStartedWhereTheSystemHasNoMoreThreads) {
  if (!test::can_limit_memory()) GTEST_SKIP() << "sanitizers need all addresses";
  const std::string text = test::with_little_memory(std::size_t{256} << 20, [] {
    std::string said = message_of<Error>([] { ThreadPool pool(1024); });
    ThreadPool small(2);  // there is room again
    small.run(2, [](std::size_t) {});
    return said;
  });
  EXPECT_TRUE(contains(text, "1024 threads were asked for and ")) << text;
  EXPECT_TRUE(contains(text, "lower threads (--threads, threads= in Python")) << text;
  EXPECT_TRUE(contains(text, "ulimit -u")) << text;
}

TEST(Memory, ABufferThatWasMovedFromIsEmpty) {
  Buffer<float> buffer(100);
  const Buffer<float> other = std::move(buffer);
  EXPECT_EQ(other.capacity(), 100U);
  EXPECT_EQ(buffer.capacity(), 0U);  // NOLINT: what is left of it is the question
  buffer.reserve(10);
  buffer.view(10)[9] = 1.0F;
  EXPECT_EQ(buffer.capacity(), 10U);
}

TEST(Memory, ARefusalSaysHowMuchAndWhatFor) {
  if (!test::can_limit_memory()) GTEST_SKIP() << "sanitizers need all addresses";
  const std::string text = test::with_little_memory(std::size_t{256} << 20, [] {
    Buffer<float> buffer(1000);
    std::string said = message_of<Error>([&] { buffer.reserve(250'000'000); });
    buffer.reserve(10);  // what failed left nothing half done
    buffer.view(10)[9] = 1.0F;
    return said;
  });
  EXPECT_TRUE(contains(text, "not enough memory, 1000.0 MB for what is kept between steps")) << text;
  EXPECT_TRUE(contains(text, "run fewer ranks")) << text;
  EXPECT_TRUE(contains(error_text(std::bad_alloc()), "not enough memory: run fewer ranks"));
  EXPECT_EQ(error_text(Error("as it is")), "as it is");
}

TEST(ThreadPool, PartsCoverTheWholeRange) {
  for (const std::size_t size : {0UL, 1UL, 63UL, 64UL, 65UL, 1000UL}) {
    for (const std::size_t parts : {1UL, 2UL, 3UL, 7UL}) {
      std::size_t expected = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const Range range = part_of(size, part, parts, 16);
        EXPECT_EQ(range.begin, expected);
        EXPECT_TRUE(range.begin % 16 == 0 || range.begin == size);
        expected = range.end;
      }
      EXPECT_EQ(expected, size);
    }
  }
}

TEST(Workspace, DoesNotAllocateAfterTheFirstUse) {
  Workspace workspace;
  const auto use = [&] {
    Workspace::Scope outer(workspace);
    const auto a = workspace.take<float>(100'000);
    {
      Workspace::Scope inner(workspace);
      const auto b = workspace.take<std::uint64_t>(50'000);
      b[49'999] = 1;
    }
    const auto c = workspace.take<std::byte>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.data()) % Workspace::kAlignment, 0U);
    a[99'999] = 1;
  };
  use();
  const auto before = test::allocation_count();
  for (int i = 0; i < 10; ++i) use();
  EXPECT_EQ(test::allocation_count(), before);
}

/// Memory that a device would have. It counts what it holds.
class CountingQueue final : public DeviceQueue {
 public:
  std::size_t held = 0;
  std::size_t blocks = 0;

  void* allocate(std::size_t bytes) override {
    held += bytes;
    ++blocks;
    return ::operator new(bytes, kLine);
  }
  void release(void* memory) noexcept override { ::operator delete(memory, kLine); }
  std::shared_ptr<std::byte> share_memory(std::size_t) override { return nullptr; }
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t) override { return nullptr; }
  void read(void*, const void*, std::size_t) override {}
  void write(void*, const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}
  void clear(void*, std::size_t) override {}
  void wait() override {}

 private:
  static constexpr std::align_val_t kLine{64};
};

TEST(Workspace, OnADeviceGrowsSeldomIfWhatIsTakenGrowsALittle) {
  CountingQueue queue;
  Workspace workspace(Device::cuda, &queue);
  std::size_t most = 0;
  for (std::size_t step = 0; step < 1000; ++step) {
    const Workspace::Scope scope(workspace);
    most = 1'000'000 + 200 * step;  // a fifth more in the end
    workspace.take<std::byte>(most);
    workspace.take<std::byte>(most);
  }
  EXPECT_LE(queue.blocks, 5U);
  EXPECT_LE(queue.held, 5 * most);
}

TEST(Status, SoundnessErrorTellsWhatWasFound) {
  Place place({.threads = 1});
  Status status;
  require_sound(place, view_of(status));
  status.fault = PayloadFault::too_short;
  status.fault_offset = 8;
  status.fault_found = 12;
  status.fault_expected = 32;
  const auto text = message_of<CorruptPayload>([&] { require_sound(place, view_of(status)); });
  EXPECT_TRUE(contains(text, "cut short: at byte 8 found 12, expected 32")) << text;
}

}  // namespace
}  // namespace laconic
