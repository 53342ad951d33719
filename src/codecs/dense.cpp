#include "codecs/dense.h"

#include <algorithm>

#include "base/check.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/received.h"

namespace laconic::dense {

std::uint64_t max_payload_bytes(std::uint64_t n, ValueFormat format) {
  return sizeof(PayloadHeader) + value_bytes(n, format);
}

GradientView body(View<std::byte> payload, std::uint64_t n, ValueFormat format) {
  require_format(format);
  require_payload(payload, max_payload_bytes(n, format));
  return values_in(payload, sizeof(PayloadHeader), format, n);
}

void seal(Place& place, std::uint64_t n, ValueFormat format, View<std::byte> payload, StatusView status,
          std::uint32_t signature) {
  const std::uint64_t bytes = max_payload_bytes(n, format);
  require_payload(payload, bytes);
  const Touch touch(place);
  put_filling(place, payload, sizeof(PayloadHeader) + n * bytes_of(format), bytes);
  PayloadHeader header = header_of(Codec::dense, static_cast<std::uint8_t>(format), bytes, n);
  header.count = signature;
  seal_payload(place, header, payload, status);
}

void encode(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload, StatusView status,
            std::uint32_t signature) {
  const GradientView to = body(payload, values.size(), format);
  require_same_device("payload", payload.device(), place.device());
  convert(place, values, to, status);
  seal(place, values.size(), format, payload, status, signature);
}

bool open(Place& place, std::span<const ReceivedRange> ranges, ValueFormat format, TakeValues take, StatusView status,
          std::uint32_t signature) {
  const Touch touch(place);
  require_format(format);
  for (const ReceivedRange& range : ranges) LACONIC_CHECK(range.begin <= range.end);
  const auto fault = signature == 0 ? PayloadFault::wrong_count : PayloadFault::wrong_blocks;
  const auto words = [&](const ReceivedRange& range, const auto& check) {
    check(filling_of(sizeof(PayloadHeader), range.size() * 8 * bytes_of(format)));
  };
  const auto take_sound = [&](Received& received, const ReceivedRange& range, std::size_t i) {
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(static_cast<std::uint8_t>(format)) &&
                       received.has_elements(range.size()) && received.has_count(signature, fault) &&
                       received.has_length(max_payload_bytes(range.size(), format)) && received.has_sound(words, range);
    if (!sound) return false;
    take(i, values_in(range.payload, sizeof(PayloadHeader), format, range.size()));
    return received.accept();
  };
  const auto range_of = [&](std::size_t i) { return ranges[i]; };
  return open_each(place, ranges.size(), range_of, Codec::dense, words, status, take_sound);
}

bool open(Place& place, View<const std::byte> payload, std::uint64_t n, ValueFormat format, ConstGradientView& values,
          StatusView status, std::uint32_t signature) {
  values = {};
  const ReceivedRange range{payload, 0, n};
  const auto take = [&](std::size_t, ConstGradientView found) { values = found; };
  return open(place, {&range, 1}, format, take, status, signature);
}

bool decode(Place& place, std::span<const ReceivedRange> ranges, ValueFormat format, GradientView view,
            StatusView status, std::uint32_t signature) {
  for (const ReceivedRange& range : ranges) require_at_least("view", view.size(), range.end);
  const auto take = [&](std::size_t i, ConstGradientView found) {
    convert(place, found, view.sub(ranges[i].begin, ranges[i].size()));
  };
  return open(place, ranges, format, take, status, signature);
}

bool decode(Place& place, View<const std::byte> payload, ValueFormat format, GradientView values, StatusView status,
            std::uint32_t signature) {
  const ReceivedRange range{payload, 0, values.size()};
  return decode(place, {&range, 1}, format, values, status, signature);
}

}  // namespace laconic::dense
