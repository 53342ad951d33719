#pragma once

#include "codecs/received.h"

// The codecs' work on a device, on a place's stream. Only `inspect` waits.
namespace laconic::cuda {

/// seal_payload.
void seal(Place& place, const PayloadHeader& header, View<std::byte> payload, StatusView status);
/// seal_payload for a header that is in the payload already, with flags and length.
void seal_written(Place& place, View<std::byte> payload, StatusView status);

/// Looks at payloads and waits once. Words that a payload does not reach are not looked at: then its length is wrong.
/// Of one that is too short for a header nothing is found.
void inspect(Place& place, std::span<const View<const std::byte>> payloads, Received::Words words,
             std::span<Inspection> found);

void put_zeros(Place& place, View<std::byte> bytes);
void set_nonfinite(Place& place, StatusView status);
void set_count(Place& place, std::uint64_t count, StatusView status);

/// As in payload.h.
void note_flagged(Place& place, Each<View<const std::byte>> payloads, std::uint32_t first_rank, StatusView status);

/// to[i] = norms[i]; 0, with status.nonfinite set, for a norm that is not finite.
void put_norms(Place& place, View<const float> norms, View<float> to, StatusView status);

}  // namespace laconic::cuda
