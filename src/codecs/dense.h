#pragma once

#include "codecs/payload.h"

namespace laconic::dense {

/// Header and n values in 32 or 16 bits. All sizes are exact, so max is also the length.
std::uint64_t max_payload_bytes(std::uint64_t n, ValueFormat format);

/// `signature`: of which entries of a larger view the values are, where all ranks drew them alike (signature.h).
void encode(Place& place, View<const float> values, ValueFormat format, View<std::byte> payload, StatusView status,
            std::uint32_t signature = 0);

/// values.size(), format and signature must be what was encoded; on a fault nothing is written. Both return false then.
/// A payload whose sender met non-finite values decodes, and sets status.nonfinite.
bool decode(Place& place, View<const std::byte> payload, ValueFormat format, View<float> values, StatusView status,
            std::uint32_t signature = 0);
bool decode_add(Place& place, View<const std::byte> payload, ValueFormat format, View<float> values, StatusView status,
                std::uint32_t signature = 0);

}  // namespace laconic::dense
