#pragma once

#include "codecs/received.h"
#include "codecs/sparse_layout.h"
#include "kernels/sparse/twins.h"

namespace laconic::cuda {

/// What a device tells about a sparse payload besides its header.
struct SparseInspection {
  Inspection payload;
  std::uint64_t first;          ///< the range's first index, as the payload has it
  std::uint64_t gap_bits;       ///< of all groups
  std::uint64_t wrong_group;    ///< the first group with an impossible width, or kNoGroup
  std::uint32_t wrong_width;    ///< its width
  std::uint32_t wrong_indices;  ///< 1 if an index is outside or out of order, or their number is wrong
  std::uint32_t widths_end;     ///< the last words of widths, gaps and values, if the payload has the right length
  std::uint32_t gaps_end;
  std::uint32_t values_end;
  std::uint32_t magnitude;        ///< the bits of the first magnitude that is not finite or is negative,
  std::uint64_t wrong_magnitude;  ///< and its number, or kNoMagnitude
};
inline constexpr std::uint64_t kNoMagnitude = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoGroup = ~std::uint64_t{0};

/// sparse::encode, for a payload of max_payload_bytes. Does not wait.
void encode_sparse(Place& place, ConstSparseView entries, sparse::IndexRange range, const sparse::ValueCoding& coding,
                   View<std::byte> payload, StatusView status);

/// Looks at the payloads of lists and, as far as they are sound, writes their indices. Waits once. For a payload that
/// is shorter than a header, what is found is all zeros.
void inspect_sparse(Place& place, std::span<const sparse::ReceivedList> lists, const sparse::ValueCoding& coding,
                    std::span<SparseInspection> found);

}  // namespace laconic::cuda
