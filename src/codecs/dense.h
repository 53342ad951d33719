#pragma once

#include "codecs/payload.h"

namespace laconic::dense {

/// A header and n values in 32 or 16 bits. The size is exact, so the maximum is also the length.
std::uint64_t max_payload_bytes(std::uint64_t n, ValueFormat format);

/// `signature` identifies the entries of a larger view that the values come from, if all ranks drew these entries alike
/// (signature.h).
void encode(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload, StatusView status,
            std::uint32_t signature = 0);

/// values.size(), format and signature must be those that were encoded. On a fault both functions write nothing and
/// return false. A payload whose sender met non-finite values decodes and sets status.nonfinite.
bool decode(Place& place, View<const std::byte> payload, ValueFormat format, GradientView values, StatusView status,
            std::uint32_t signature = 0);
bool decode_add(Place& place, View<const std::byte> payload, ValueFormat format, View<float> values, StatusView status,
                std::uint32_t signature = 0);

}  // namespace laconic::dense
