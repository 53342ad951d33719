#include "kernels/bitpack/bitpack.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/bitpack/loops.h"
#include "kernels/cuda.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

void require(Place& place, View<const std::uint32_t> fields, int bits, View<const std::byte> packed) {
  if (bits < 0 || bits > 32) {
    throw InvalidConfig("bits of a packed field must be in 0..32, got " + std::to_string(bits) +
                        ": fields are parts of 32-bit words");
  }
  require_same_device("fields", fields.device(), place.device());
  require_same_device("packed", packed.device(), place.device());
  require_size("packed", packed.size(), packed_bytes(fields.size(), bits));
}

}  // namespace

void pack_fields(Place& place, View<const std::uint32_t> fields, int bits, View<std::byte> packed) {
  require(place, fields, bits, packed);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(pack_fields, place, fields, bits, packed);
  const Touch touch(place);
  if (bits == 0) return;
  parallel_ranges(place.pool(), fields.size(), kPackGroup, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), pack_fields, fields.sub(range.begin, range.size()), bits,
                     packed.data() + packed_bytes(range.begin, bits));
  });
}

void unpack_fields(Place& place, View<const std::byte> packed, int bits, View<std::uint32_t> fields) {
  require(place, fields, bits, packed);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(unpack_fields, place, packed, bits, fields);
  const Touch touch(place);
  if (bits == 0) {
    std::fill(fields.begin(), fields.end(), 0U);
    return;
  }
  parallel_ranges(place.pool(), fields.size(), kPackGroup, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), unpack_fields, packed.data() + packed_bytes(range.begin, bits), bits,
                     fields.sub(range.begin, range.size()));
  });
}

}  // namespace laconic
