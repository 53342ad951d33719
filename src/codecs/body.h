#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codecs/payload.h"

// Functions for payload bodies that the codecs share. For this layer only.

namespace laconic {

constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

/// A header for a body that a codec wrote; seal_payload fills in the rest.
constexpr PayloadHeader header_of(Codec codec, std::uint8_t format, std::uint64_t payload_bytes,
                                  std::uint64_t elements) {
  return {.magic = kPayloadMagic,
          .version = kWireVersion,
          .codec = static_cast<std::uint8_t>(codec),
          .format = format,
          .flags = 0,
          .payload_bytes = payload_bytes,
          .elements = elements,
          .count = 0,
          .checksum = 0};
}

/// The header of a payload. The payload must be long enough to have one. On a device it waits.
PayloadHeader read_header(Place& place, View<const std::byte> payload);

/// Throws InvalidConfig unless the payload starts at a multiple of kPayloadAlignment.
void require_aligned(View<const std::byte> payload);

/// Throws InvalidConfig unless the view is aligned and has room for `needed` bytes.
void require_payload(View<std::byte> payload, std::uint64_t needed);

/// Throws InvalidConfig unless this version knows `format`.
void require_format(ValueFormat format);

/// Bytes [offset, offset + count·sizeof(T)) of a payload as entries of T.
template <class T>
View<T> body_of(View<std::byte> payload, std::uint64_t offset, std::uint64_t count) {
  return {reinterpret_cast<T*>(payload.data() + offset), static_cast<std::size_t>(count), payload.device()};
}
template <class T>
View<const T> body_of(View<const std::byte> payload, std::uint64_t offset, std::uint64_t count) {
  return {reinterpret_cast<const T*>(payload.data() + offset), static_cast<std::size_t>(count), payload.device()};
}

/// Bytes of `n` values, with padding.
constexpr std::uint64_t value_bytes(std::uint64_t n, ValueFormat format) { return padded(n * bytes_of(format)); }

/// Writes the values and their padding at `offset`. Sets status.nonfinite if a value is NaN or Inf or overflows.
void put_values(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload,
                std::uint64_t offset, StatusView status);

/// `count` values in the body of a payload, at `offset`.
template <class Byte>
BasicGradientView<Byte> values_in(View<Byte> payload, std::uint64_t offset, ValueFormat format, std::uint64_t count) {
  return {payload.data() + offset, type_of(format), static_cast<std::size_t>(count), payload.device()};
}

/// Reads values.size() values, in the type of `values`. The caller has checked that the payload contains them.
void get_values(Place& place, View<const std::byte> payload, std::uint64_t offset, ValueFormat format,
                GradientView values);

/// Sets status.nonfinite.
void set_nonfinite(Place& place, StatusView status);

/// Writes zero bytes from `from` up to `to`.
void put_filling(Place& place, View<std::byte> payload, std::uint64_t from, std::uint64_t to);

}  // namespace laconic
