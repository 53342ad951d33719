#pragma once

#include <cstddef>
#include <cstdint>

#include "laconic/place.h"
#include "laconic/view.h"

// The loops behind kernels/bitpack. Each works on a run of fields that begins at a group. The caller has checked the
// sizes.

namespace laconic::reference {
void pack_fields(View<const std::uint32_t> fields, int bits, std::byte* packed);
void unpack_fields(const std::byte* packed, int bits, View<std::uint32_t> fields);
}  // namespace laconic::reference

namespace laconic::portable {
void pack_fields(SimdLevel level, View<const std::uint32_t> fields, int bits, std::byte* packed);
void unpack_fields(SimdLevel level, const std::byte* packed, int bits, View<std::uint32_t> fields);
}  // namespace laconic::portable

namespace laconic::simd {
void pack_fields(SimdLevel level, View<const std::uint32_t> fields, int bits, std::byte* packed);
void unpack_fields(SimdLevel level, const std::byte* packed, int bits, View<std::uint32_t> fields);
}  // namespace laconic::simd

// The twins, on a place's stream; contracts as in bitpack.h.
namespace laconic::cuda {
void pack_fields(Place& place, View<const std::uint32_t> fields, int bits, View<std::byte> packed);
void unpack_fields(Place& place, View<const std::byte> packed, int bits, View<std::uint32_t> fields);
}  // namespace laconic::cuda
