#include "bench/streams.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bench/stream_loops.h"

namespace laconic::bench {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kEntries = kLine / sizeof(float);

/// Where what was read ends, so that no read can be left out.
std::atomic<std::uint32_t> sink{0};

void look_at(const std::byte* bytes, std::size_t size) {
  sink.fetch_or(loops::read(reinterpret_cast<const std::uint32_t*>(bytes), size / 4), std::memory_order_relaxed);
}

}  // namespace

void stream_add(ThreadPool& pool, View<const float> x, View<float> y) {
  parallel_ranges(pool, x.size(), kEntries,
                  [&](Range range) { loops::add(x.data() + range.begin, y.data() + range.begin, range.size()); });
}

void stream_read(ThreadPool& pool, View<const std::byte> bytes) {
  parallel_ranges(pool, bytes.size(), kLine, [&](Range range) { look_at(bytes.data() + range.begin, range.size()); });
}

void stream_read_all(ThreadPool& pool, std::span<const View<const std::byte>> views) {
  parallel_ranges(pool, views[0].size(), kLine, [&](Range range) {
    for (const auto& view : views) look_at(view.data() + range.begin, range.size());
  });
}

void stream_write(ThreadPool& pool, View<float> values) {
  parallel_ranges(pool, values.size(), kEntries,
                  [&](Range range) { loops::write(values.data() + range.begin, range.size()); });
}

void stream_copy(ThreadPool& pool, View<const float> from, View<float> to) {
  parallel_ranges(pool, from.size(), kEntries, [&](Range range) {
    std::memcpy(to.data() + range.begin, from.data() + range.begin, range.size() * sizeof(float));
  });
}

void stream_read_and_update(ThreadPool& pool, View<const std::byte> packed, View<float> values) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t blocks = (values.size() + kBlock - 1) / kBlock;
  const std::size_t share = blocks == 0 ? 0 : packed.size() / blocks / 4 * 4;
  // parallel_ranges keeps short loops on the caller; blocks are long, so the count of entries decides.
  parallel_ranges(pool, values.size(), kBlock, [&](Range range) {
    for (std::size_t begin = range.begin; begin < range.end; begin += kBlock) {
      look_at(packed.data() + begin / kBlock * share, share);
      loops::update(values.data() + begin, std::min(kBlock, range.end - begin));
    }
  });
}

void stream_narrow(ThreadPool& pool, View<const float> from, View<std::uint16_t> to) {
  parallel_ranges(pool, from.size(), kLine, [&](Range range) {
    loops::narrow(from.data() + range.begin, to.data() + range.begin, range.size());
  });
}

void stream_widen(ThreadPool& pool, View<const std::uint16_t> from, View<float> to) {
  parallel_ranges(pool, from.size(), kLine,
                  [&](Range range) { loops::widen(from.data() + range.begin, to.data() + range.begin, range.size()); });
}

void stream_merge(ThreadPool& pool, std::span<const View<const float>> parts, View<float> to) {
  constexpr std::size_t kBlock = 2048;  // stays in the first cache while it is written once a part
  parallel_ranges(pool, to.size(), kBlock, [&](Range range) {
    for (std::size_t begin = range.begin; begin < range.end; begin += kBlock) {
      const std::size_t count = std::min(kBlock, range.end - begin);
      loops::merge(parts[0].data() + begin, parts[1].data() + begin, to.data() + begin, count);
      for (std::size_t i = 2; i < parts.size(); ++i) {
        loops::merge(to.data() + begin, parts[i].data() + begin, to.data() + begin, count);
      }
    }
  });
}

void stream_spaced(ThreadPool& pool, View<const std::uint32_t> indices, View<const float> values, View<float> to) {
  const std::size_t count = indices.size();
  const std::size_t stride = count == 0 ? 0 : to.size() / count;
  parallel_ranges(pool, count, kEntries, [&](Range range) {
    look_at(reinterpret_cast<const std::byte*>(indices.data() + range.begin), range.size() * sizeof(std::uint32_t));
    for (std::size_t i = range.begin; i < range.end; ++i) to[i * stride] += values[i];
  });
}

}  // namespace laconic::bench
