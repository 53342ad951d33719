#include "codecs/block.h"

#include <optional>

#include "base/check.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "codecs/body.h"
#include "codecs/received.h"
#include "codecs/signature.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic::block {
namespace {

std::uint32_t signature(std::span<const Block> blocks, std::uint64_t begin, std::uint64_t count) {
  Signature signature(blocks.size());
  signature.mix(begin).mix(count);
  for (const Block& block : blocks) signature.mix(block.offset).mix(block.size).mix(block.start).mix(block.count);
  return signature.low_word();
}

void require_range(std::span<const Block> blocks, std::uint64_t begin, std::uint64_t count) {
  const std::uint64_t total = blocks_size(blocks);
  if (begin <= total && count <= total - begin) return;
  throw InvalidConfig(std::to_string(count) + " entries of blocks from " + std::to_string(begin) +
                      " on asked for, they have " + std::to_string(total) + ": stay within blocks_size(blocks)");
}

}  // namespace

std::uint64_t max_payload_bytes(std::uint64_t count, ValueFormat format) {
  return sizeof(PayloadHeader) + value_bytes(count, format);
}

void seal(Place& place, std::span<const Block> blocks, std::uint64_t begin, std::uint64_t count, ValueFormat format,
          View<std::byte> payload, StatusView status) {
  const Touch touch(place);
  const std::uint64_t bytes = max_payload_bytes(count, format);
  put_filling(place, payload, sizeof(PayloadHeader) + count * bytes_of(format), bytes);
  PayloadHeader header = header_of(Codec::block, static_cast<std::uint8_t>(format), bytes, count);
  header.count = signature(blocks, begin, count);
  seal_payload(place, header, payload, status);
}

void encode(Place& place, View<const float> flat, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<std::byte> payload, StatusView status) {
  require_format(format);
  require_range(blocks, begin, count);
  require_payload(payload, max_payload_bytes(count, format));
  require_same_device("payload", payload.device(), place.device());
  const Touch touch(place);
  if (format == ValueFormat::f32) {
    const auto body = body_of<float>(payload, sizeof(PayloadHeader), count);
    gather_blocks(place, flat, blocks, begin, body);
    find_nonfinite(place, body, status);
    seal(place, blocks, begin, count, format, payload, status);
    return;
  }
  const Workspace::Scope scope(place.workspace());
  const auto values = place.workspace().take<float>(count);
  gather_blocks(place, flat, blocks, begin, values);
  encode_values(place, values, blocks, begin, format, payload, status);
}

void encode_values(Place& place, View<const float> values, std::span<const Block> blocks, std::uint64_t begin,
                   ValueFormat format, View<std::byte> payload, StatusView status) {
  require_format(format);
  require_range(blocks, begin, values.size());
  require_payload(payload, max_payload_bytes(values.size(), format));
  require_same_device("payload", payload.device(), place.device());
  convert(place, values, values_in(payload, sizeof(PayloadHeader), format, values.size()), status);
  seal(place, blocks, begin, values.size(), format, payload, status);
}

bool open(Place& place, std::span<const ReceivedRange> ranges, std::span<const Block> blocks, ValueFormat format,
          TakeValues take, StatusView status) {
  const Touch touch(place);
  require_format(format);
  for (const ReceivedRange& range : ranges) require_range(blocks, range.begin, range.size());
  const auto words = [&](const ReceivedRange& range, const auto& check) {
    check(filling_of(sizeof(PayloadHeader), range.size() * 8 * bytes_of(format)));
  };
  std::optional<ReceivedRange> signed_range;  // ranges follow each other that are the same
  std::uint32_t expected = 0;
  const auto take_sound = [&](Received& received, const ReceivedRange& range, std::size_t i) {
    if (!signed_range || signed_range->begin != range.begin || signed_range->end != range.end) {
      signed_range = range;
      expected = signature(blocks, range.begin, range.size());
    }
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(static_cast<std::uint8_t>(format)) &&
                       received.has_elements(range.size()) &&
                       received.has_count(expected, PayloadFault::wrong_blocks) &&
                       received.has_length(max_payload_bytes(range.size(), format)) && received.has_sound(words, range);
    if (!sound) return false;
    take(i, values_in(range.payload, sizeof(PayloadHeader), format, range.size()));
    return received.accept();
  };
  const auto range_of = [&](std::size_t i) { return ranges[i]; };
  return open_each(place, ranges.size(), range_of, Codec::block, words, status, take_sound);
}

bool decode(Place& place, View<const std::byte> payload, std::span<const Block> blocks, std::uint64_t begin,
            std::uint64_t count, ValueFormat format, View<float> flat, StatusView status) {
  const Touch touch(place);
  const ReceivedRange range{payload, begin, begin + count};
  const auto take = [&](std::size_t, ConstGradientView found) {
    if (found.is_float32()) return scatter_blocks(place, found.floats(), blocks, begin, flat);
    const Workspace::Scope scope(place.workspace());
    const auto values = place.workspace().take<float>(count);
    convert(place, found, values);
    scatter_blocks(place, values, blocks, begin, flat);
  };
  return open(place, {&range, 1}, blocks, format, take, status);
}

}  // namespace laconic::block
