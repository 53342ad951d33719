#include "codecs/dense.h"

#include "base/check.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/received.h"

namespace laconic::dense {
namespace {

/// Checks a payload, then lets `take`, get_values or add_values, read its values.
template <class Values, class Take>
bool read(Place& place, View<const std::byte> payload, ValueFormat format, Values values, StatusView status,
          std::uint32_t signature, const Take& take) {
  const Touch touch(place);
  require_format(format);
  const auto fault = signature == 0 ? PayloadFault::wrong_count : PayloadFault::wrong_blocks;
  const std::uint64_t n = values.size();
  const auto words = [&](const auto& check) { check(filling_of(sizeof(PayloadHeader), n * 8 * bytes_of(format))); };
  Received received(place, payload, status);
  const bool sound = received.open(Codec::dense, words) && received.has_flags(kNonfiniteFlag) &&
                     received.has_format(static_cast<std::uint8_t>(format)) && received.has_elements(n) &&
                     received.has_count(signature, fault) && received.has_length(max_payload_bytes(n, format)) &&
                     received.has_sound(words);
  if (!sound) return false;
  take(place, payload, sizeof(PayloadHeader), format, values);
  return received.accept();
}

}  // namespace

std::uint64_t max_payload_bytes(std::uint64_t n, ValueFormat format) {
  return sizeof(PayloadHeader) + value_bytes(n, format);
}

void encode(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload, StatusView status,
            std::uint32_t signature) {
  require_format(format);
  const std::uint64_t bytes = max_payload_bytes(values.size(), format);
  require_payload(payload, bytes);
  require_same_device("payload", payload.device(), place.device());
  const Touch touch(place);
  put_values(place, values, format, payload, sizeof(PayloadHeader), status);
  PayloadHeader header = header_of(Codec::dense, static_cast<std::uint8_t>(format), bytes, values.size());
  header.count = signature;
  seal_payload(place, header, payload, status);
}

bool decode(Place& place, View<const std::byte> payload, ValueFormat format, GradientView values, StatusView status,
            std::uint32_t signature) {
  return read(place, payload, format, values, status, signature, get_values);
}

bool decode_add(Place& place, View<const std::byte> payload, ValueFormat format, View<float> values, StatusView status,
                std::uint32_t signature) {
  return read(place, payload, format, values, status, signature, add_values);
}

}  // namespace laconic::dense
