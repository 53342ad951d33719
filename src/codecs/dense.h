#pragma once

#include <span>

#include "codecs/payload.h"

namespace laconic::dense {

/// A header and n values in 32 or 16 bits. The size is exact, so the maximum is also the length.
std::uint64_t max_payload_bytes(std::uint64_t n, ValueFormat format);

/// `signature` identifies the entries of a larger view that the values come from, if all ranks drew these entries alike
/// (signature.h).
void encode(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload, StatusView status,
            std::uint32_t signature = 0);

/// For a body that is written in place: where its n values go, and the rest of a payload once they are there.
GradientView body(View<std::byte> payload, std::uint64_t n, ValueFormat format);
void seal(Place& place, std::uint64_t n, ValueFormat format, View<std::byte> payload, StatusView status,
          std::uint32_t signature = 0);

/// The values of a received payload, where they lie. Their number, format and signature must be those that were
/// encoded. On a fault `open` returns false and no values, and `decode` writes nothing and returns false. A payload
/// whose sender met non-finite values is accepted and sets status.nonfinite.
bool open(Place& place, View<const std::byte> payload, std::uint64_t n, ValueFormat format, ConstGradientView& values,
          StatusView status, std::uint32_t signature = 0);
bool decode(Place& place, View<const std::byte> payload, ValueFormat format, GradientView values, StatusView status,
            std::uint32_t signature = 0);

/// The same for several payloads, up to the first that has a fault. On a device they wait once for 32 payloads. `open`
/// gives what it finds to `take`, `decode` writes to the ranges of `view`.
bool open(Place& place, std::span<const ReceivedRange> ranges, ValueFormat format, TakeValues take, StatusView status,
          std::uint32_t signature = 0);
bool decode(Place& place, std::span<const ReceivedRange> ranges, ValueFormat format, GradientView view,
            StatusView status, std::uint32_t signature = 0);

}  // namespace laconic::dense
