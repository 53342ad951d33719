#pragma once

#include <span>

#include "codecs/payload.h"
#include "kernels/block/block.h"

namespace laconic::block {

/// Values of random blocks: entries [begin, begin + count) of their concatenation. No indices are sent, because all
/// ranks drew the same blocks. A signature of blocks and range in the header lets a receiver reject a payload of other
/// blocks.
std::uint64_t max_payload_bytes(std::uint64_t count, ValueFormat format);

void encode(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<std::byte> payload, StatusView status);

/// Writes to the blocks' entries of `flat`.
bool decode(Place& place, View<const std::byte> payload, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<float> flat, StatusView status);

/// Gives the values of received payloads to `take`, the entries one after another, up to the first payload that has a
/// fault. Then it returns false. On a device it waits once for 32 payloads.
bool open(Place& place, std::span<const ReceivedRange> ranges, std::span<const Block> blocks, ValueFormat format,
          TakeValues take, StatusView status);

/// For a body that is written in place (dense::body): the rest of a payload once its values are there.
void seal(Place& place, std::span<const Block> blocks, std::uint64_t begin, std::uint64_t count, ValueFormat format,
          View<std::byte> payload, StatusView status);

/// Like encode, for values that already lie one after another.
void encode_values(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                   ValueFormat format, View<std::byte> payload, StatusView status);

}  // namespace laconic::block
