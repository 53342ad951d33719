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

bool open(Place& place, std::span<const View<const std::byte>> payloads, std::uint64_t n, ValueFormat format,
          std::span<ConstGradientView> values, StatusView status, std::uint32_t signature) {
  const Touch touch(place);
  require_format(format);
  require_size("values", values.size(), payloads.size());
  std::fill(values.begin(), values.end(), ConstGradientView());
  const auto fault = signature == 0 ? PayloadFault::wrong_count : PayloadFault::wrong_blocks;
  const auto words = [&](const auto& check) { check(filling_of(sizeof(PayloadHeader), n * 8 * bytes_of(format))); };
  return open_each(place, payloads, Codec::dense, words, status, [&](Received& received, std::size_t i) {
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(static_cast<std::uint8_t>(format)) &&
                       received.has_elements(n) && received.has_count(signature, fault) &&
                       received.has_length(max_payload_bytes(n, format)) && received.has_sound(words);
    if (!sound) return false;
    values[i] = values_in(payloads[i], sizeof(PayloadHeader), format, n);
    return received.accept();
  });
}

bool open(Place& place, View<const std::byte> payload, std::uint64_t n, ValueFormat format, ConstGradientView& values,
          StatusView status, std::uint32_t signature) {
  return open(place, {&payload, 1}, n, format, {&values, 1}, status, signature);
}

bool decode(Place& place, View<const std::byte> payload, ValueFormat format, GradientView values, StatusView status,
            std::uint32_t signature) {
  ConstGradientView found;
  if (!open(place, payload, values.size(), format, found, status, signature)) return false;
  convert(place, found, values);
  return true;
}

}  // namespace laconic::dense
