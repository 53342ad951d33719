#include <array>
#include <bit>
#include <cstring>

#include "kernels/bitpack/bitpack.h"
#include "kernels/bitpack/loops.h"

namespace laconic::reference {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little endian, and so must be the machine");

constexpr std::uint64_t mask_of(int bits) { return (std::uint64_t{1} << bits) - 1; }

/// Where a row of a group stands in its lane's words.
struct Position {
  std::size_t word;
  int shift;
  bool straddles;  ///< its upper bits are the lowest of the lane's next word
};

Position position_of(std::size_t field, int bits) {
  const auto bit = static_cast<int>(field / kPackLanes) * bits;
  return {static_cast<std::size_t>(bit / 32) * kPackLanes + field % kPackLanes, bit % 32, bit % 32 + bits > 32};
}

void pack_group(const std::uint32_t* fields, int bits, std::byte* packed) {
  std::array<std::uint32_t, kPackGroup> words{};
  for (std::size_t field = 0; field < kPackGroup; ++field) {
    const Position at = position_of(field, bits);
    const std::uint64_t value = (fields[field] & mask_of(bits)) << at.shift;
    words[at.word] |= static_cast<std::uint32_t>(value);
    if (at.straddles) words[at.word + kPackLanes] |= static_cast<std::uint32_t>(value >> 32);
  }
  if (bits > 0) std::memcpy(packed, words.data(), packed_bytes(kPackGroup, bits));
}

void unpack_group(const std::byte* packed, int bits, std::uint32_t* fields) {
  std::array<std::uint32_t, kPackGroup> words{};
  if (bits > 0) std::memcpy(words.data(), packed, packed_bytes(kPackGroup, bits));
  for (std::size_t field = 0; field < kPackGroup; ++field) {
    const Position at = position_of(field, bits);
    std::uint64_t value = words[at.word];
    if (at.straddles) value |= std::uint64_t{words[at.word + kPackLanes]} << 32;
    fields[field] = static_cast<std::uint32_t>(value >> at.shift & mask_of(bits));
  }
}

void pack_stream(View<const std::uint32_t> fields, int bits, std::byte* packed) {
  std::uint64_t pending = 0;
  int filled = 0;
  for (const std::uint32_t field : fields) {
    pending |= (field & mask_of(bits)) << filled;
    for (filled += bits; filled >= 8; filled -= 8, pending >>= 8) *packed++ = static_cast<std::byte>(pending);
  }
  if (filled > 0) *packed = static_cast<std::byte>(pending);
}

void unpack_stream(const std::byte* packed, int bits, View<std::uint32_t> fields) {
  std::uint64_t pending = 0;
  int filled = 0;
  for (std::uint32_t& field : fields) {
    for (; filled < bits; filled += 8) pending |= std::to_integer<std::uint64_t>(*packed++) << filled;
    field = static_cast<std::uint32_t>(pending & mask_of(bits));
    pending >>= bits;
    filled -= bits;
  }
}

}  // namespace

void pack_fields(View<const std::uint32_t> fields, int bits, std::byte* packed) {
  std::size_t done = 0;
  for (; fields.size() - done >= kPackGroup; done += kPackGroup) {
    pack_group(fields.data() + done, bits, packed + packed_bytes(done, bits));
  }
  pack_stream(fields.sub(done, fields.size() - done), bits, packed + packed_bytes(done, bits));
}

void unpack_fields(const std::byte* packed, int bits, View<std::uint32_t> fields) {
  std::size_t done = 0;
  for (; fields.size() - done >= kPackGroup; done += kPackGroup) {
    unpack_group(packed + packed_bytes(done, bits), bits, fields.data() + done);
  }
  unpack_stream(packed + packed_bytes(done, bits), bits, fields.sub(done, fields.size() - done));
}

}  // namespace laconic::reference
