#pragma once

#include "base/layout.h"
#include "base/philox.h"
#include "codecs/payload.h"
#include "kernels/norm/norm.h"

namespace laconic::uniform {

/// A stretch [begin, end) of a flat view whose cuts fall on multiples of 512 entries of a tensor. Body: a float32 norm
/// a piece (a tensor's share of the stretch), then each piece's packed fields, filled with zeros to 4 bytes.
std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits);

/// Norms of whole tensors, one float each, in the place's memory: norms.size() == layout.tensors().
void tensor_norms(Place& place, View<const float> flat, const Layout& layout, Norm kind, View<float> norms,
                  StatusView status);

/// `values` is the stretch itself. `norms` by tensor. `stream` gives seed, step, rank and purpose; the tensor is filled
/// in.
void encode(Place& place, View<const float> values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<const float> norms, int bits, const Stream& stream, View<std::byte> payload, StatusView status,
            float sender_norm = 0.0F);

/// Adds the decoded values to the stretch. On a fault nothing is written and false returned.
bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status);

/// The sender's own norm of a payload that was decoded.
float sender_norm(Place& place, View<const std::byte> payload);

}  // namespace laconic::uniform
