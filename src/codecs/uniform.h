#pragma once

#include "base/layout.h"
#include "base/philox.h"
#include "codecs/payload.h"
#include "kernels/norm/norm.h"

namespace laconic::uniform {

/// Quantized values of a range [begin, end) of a flat view. Both ends must be multiples of 512 entries from the start
/// of their tensor. The body has one float32 norm per slice (the part of a tensor inside the range), then each slice's
/// packed fields, padded with zeros to 4 bytes.
std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits);

/// Norms of whole tensors, one float per tensor, in the place's memory. norms.size() must be layout.tensors().
void tensor_norms(Place& place, View<const float> flat, const Layout& layout, Norm kind, View<float> norms,
                  StatusView status);

/// `values` is the range itself. `norms` has one entry per tensor. `stream` gives seed, step, rank and purpose; encode
/// sets the tensor. A norm that is not finite is sent as 0, with the non-finite flag; a negative one throws
/// InvalidConfig, or on a device makes a payload that receivers reject.
void encode(Place& place, View<const float> values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<const float> norms, int bits, const RandomStream& stream, View<std::byte> payload, StatusView status,
            float sender_norm = 0.0F);

/// Adds the decoded values to the range. On a fault it writes nothing and returns false.
bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status);

/// The sender's own norm, from a payload that was decoded.
float sender_norm(Place& place, View<const std::byte> payload);

}  // namespace laconic::uniform
