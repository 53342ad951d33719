#pragma once

#include <span>

#include "codecs/payload.h"
#include "kernels/block/block.h"

namespace laconic::block {

/// Values of random blocks, entries [begin, begin + count) of their concatenation. No indices travel: all ranks drew
/// the same blocks, and a signature of blocks and range in the header refuses those that did not.
std::uint64_t max_payload_bytes(std::uint64_t count, ValueFormat format);

void encode(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<std::byte> payload, StatusView status);

/// Into the blocks' places of `flat`.
bool decode(Place& place, View<const std::byte> payload, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<float> flat, StatusView status);

/// Into `values`, one after another, added to what is there.
bool decode_add(Place& place, View<const std::byte> payload, std::span<const Block> blocks, std::uint64_t begin,
                ValueFormat format, View<float> values, StatusView status);

/// As encode, of values that already lie one after another.
void encode_values(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                   ValueFormat format, View<std::byte> payload, StatusView status);

}  // namespace laconic::block
