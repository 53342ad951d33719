#pragma once

#include <span>

#include "base/layout.h"
#include "base/philox.h"
#include "codecs/payload.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"

namespace laconic::uniform {

/// Quantized values of a range [begin, end) of a flat view. Both ends must be multiples of 512 entries from the start
/// of their tensor, and of the entries of a fixed scope if the layout has those. The body has one float32 norm per
/// slice (the part of a tensor inside the range) or per fixed scope, then each slice's packed fields, padded with zeros
/// to 4 bytes.
std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits);

/// Norms of the layout's scopes, in the place's memory. norms.size() must be layout.scopes().
void scope_norms(Place& place, ConstGradientView flat, const Layout& layout, Norm kind, View<float> norms,
                 StatusView status);

/// How values are rounded, and what becomes of the rest.
struct RoundingOptions {
  Rounding kind = Rounding::stochastic;
  View<float> rest{};  ///< if not empty, receives the values less what they decode to; it must not overlap them
};

/// `values` is the range itself. `norms` has one entry per scope of the layout. `stream` gives seed, step, rank and
/// purpose; encode sets the tensor. A norm that is not finite is sent as 0, with the non-finite flag; a negative one
/// throws InvalidConfig, or on a device makes a payload that receivers reject.
void encode(Place& place, ConstGradientView values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<const float> norms, int bits, const RandomStream& stream, View<std::byte> payload, StatusView status,
            float sender_norm = 0.0F, const RoundingOptions& rounding = {});

/// Adds the decoded values to the range. On a fault it writes nothing and returns false. `sender_norm`, in CPU memory,
/// receives the sender's own norm.
bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status, float* sender_norm = nullptr);

/// Writes the sum of all payloads' decoded values, divided by `divisor`, to the range: in their order, starting with the
/// first one's, as dequantize_sum does. All are checked first: on a fault it writes nothing and returns false.
/// `sender_norms` is in CPU memory, one per payload.
bool decode_sum(Place& place, std::span<const View<const std::byte>> payloads, const Layout& layout,
                std::uint64_t begin, std::uint64_t end, int bits, float divisor, GradientView values,
                StatusView status, std::span<float> sender_norms);

/// Writes the decoded values of each payload, divided by `divisor`, to its range of `view`, up to the first payload
/// that has a fault. Then it returns false. On a device it waits once for 32 payloads.
bool decode(Place& place, std::span<const ReceivedRange> ranges, const Layout& layout, int bits, float divisor,
            GradientView view, StatusView status);

}  // namespace laconic::uniform
