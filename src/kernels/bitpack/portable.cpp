#include "kernels/bitpack/loops.h"
#include "kernels/bitpack/portable_groups.h"

namespace laconic::portable {
namespace {

LACONIC_INLINE void pack_groups(const std::uint32_t* fields, std::size_t groups, int bits, std::byte* packed) {
  for (std::size_t group = 0; group < groups; ++group) {
    pack_group(fields + group * kPackGroup, bits, packed + group * packed_bytes(kPackGroup, bits));
  }
}

LACONIC_INLINE void unpack_groups(const std::byte* packed, std::size_t groups, int bits, std::uint32_t* fields) {
  for (std::size_t group = 0; group < groups; ++group) {
    unpack_group(packed + group * packed_bytes(kPackGroup, bits), bits, fields + group * kPackGroup);
  }
}

}  // namespace

// The plain stream behind the last full group is short: the reference's loop serves every level.

void pack_fields(SimdLevel level, View<const std::uint32_t> fields, int bits, std::byte* packed) {
  const std::size_t groups = bits == 0 ? 0 : fields.size() / kPackGroup;
  const std::size_t done = groups * kPackGroup;
  Clones<pack_groups>::run(level, fields.data(), groups, bits, packed);
  reference::pack_fields(fields.sub(done, fields.size() - done), bits, packed + packed_bytes(done, bits));
}

void unpack_fields(SimdLevel level, const std::byte* packed, int bits, View<std::uint32_t> fields) {
  const std::size_t groups = bits == 0 ? 0 : fields.size() / kPackGroup;
  const std::size_t done = groups * kPackGroup;
  Clones<unpack_groups>::run(level, packed, groups, bits, fields.data());
  reference::unpack_fields(packed + packed_bytes(done, bits), bits, fields.sub(done, fields.size() - done));
}

}  // namespace laconic::portable
