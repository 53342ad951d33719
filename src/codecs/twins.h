#pragma once

#include "codecs/received.h"

// The codecs' work on a device, on a place's stream. Only `inspect` and `read_lengths` wait.
namespace laconic::cuda {

/// seal_payload.
void seal(Place& place, const PayloadHeader& header, View<std::byte> payload, StatusView status);
/// seal_payload for a header that is in the payload already, with flags and length.
void seal_written(Place& place, View<std::byte> payload, StatusView status);

/// Looks at payloads and waits once. Words that a payload does not reach are not looked at: then its length is wrong.
/// For a payload that is shorter than a header, what is found is all zeros.
void inspect(Place& place, RangeOf range_of, Received::Words words, std::span<Inspection> found);

/// As in payload.h.
void read_lengths(Place& place, std::span<const View<const std::byte>> payloads, std::span<std::uint64_t> lengths);

void put_zeros(Place& place, View<std::byte> bytes);
void set_nonfinite(Place& place, StatusView status);
void set_count(Place& place, std::uint64_t count, StatusView status);

/// As in payload.h.
void note_flagged(Place& place, Each<View<const std::byte>> payloads, std::uint32_t first_rank, StatusView status,
                  bool only_if_none);

/// to[i] = norms[i]; 0, with status.nonfinite set, for a norm that is not finite.
void put_norms(Place& place, View<const float> norms, View<float> to, StatusView status);

}  // namespace laconic::cuda
