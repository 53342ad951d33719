#pragma once

#include <span>

#include "base/layout.h"
#include "codecs/payload.h"

namespace laconic::sign {

/// Signs of a range [begin, end) of a flat view. Both ends must be multiples of 32 entries from the start of their
/// tensor, so that each tensor's signs begin a new word.
std::uint64_t words(const Layout& layout, std::uint64_t begin, std::uint64_t end);

std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end);

/// `values` is the range itself, end - begin long.
void encode(Place& place, ConstGradientView values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<std::byte> payload, StatusView status);

/// The words inside a payload, into which votes are written before `seal`.
View<std::uint32_t> body(View<std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end);
void seal(Place& place, const Layout& layout, std::uint64_t begin, std::uint64_t end, View<std::byte> payload,
          StatusView status);

/// The words inside a received payload. On a fault it returns false and no words.
bool open(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
          View<const std::uint32_t>& words, StatusView status);
/// The same for several payloads, up to the first that has a fault. On a device it waits once for 32 payloads.
bool open(Place& place, std::span<const ReceivedRange> ranges, const Layout& layout,
          std::span<View<const std::uint32_t>> words, StatusView status);

/// values[i] = ±1, for the range itself: from words that `open` has found, or at once.
void unpack(Place& place, View<const std::uint32_t> words, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            GradientView values);
bool decode(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            GradientView values, StatusView status);

}  // namespace laconic::sign
