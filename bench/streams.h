#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "laconic/view.h"

namespace laconic::bench {

// What a kernel is measured against: the same bytes, moved by a loop that does as little as it can with them. All run
// at the best SIMD level of the machine, whatever level the kernel runs at, split over the pool in one range a thread.

/// y[i] += x[i]: 12 bytes an entry.
void stream_add(ThreadPool& pool, View<const float> x, View<float> y);

/// Looks at every byte.
void stream_read(ThreadPool& pool, View<const std::byte> bytes);

/// Looks at every byte of views of equal size, range by range.
void stream_read_all(ThreadPool& pool, std::span<const View<const std::byte>> views);

/// Writes every entry.
void stream_write(ThreadPool& pool, View<float> values);

void stream_copy(ThreadPool& pool, View<const float> from, View<float> to);

/// Looks at every byte of `packed` and adds a constant to every value, block by block: what decoding must move.
void stream_read_and_update(ThreadPool& pool, View<const std::byte> packed, View<float> values);

/// to[i] = the upper half of from[i], and the reverse.
void stream_narrow(ThreadPool& pool, View<const float> from, View<std::uint16_t> to);
void stream_widen(ThreadPool& pool, View<const std::uint16_t> from, View<float> to);

/// to[i] = the sum of the parts: reads all of them, writes once.
void stream_merge(ThreadPool& pool, std::span<const View<const float>> parts, View<float> to);

/// Looks at every index and value and adds one value to each of as many evenly spaced places: scattering without the
/// dependence on the indices.
void stream_spaced(ThreadPool& pool, View<const std::uint32_t> indices, View<const float> values, View<float> to);

}  // namespace laconic::bench
