#include "codecs/payload.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "kernels/checksum/checksum.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little, "wire structs are written as they lie in memory");

void require_aligned(View<const std::byte> payload) {
  const auto rest = reinterpret_cast<std::uintptr_t>(payload.data()) % kPayloadAlignment;
  if (rest == 0) return;
  throw InvalidConfig("payload starts " + std::to_string(rest) + " bytes behind a multiple of " +
                      std::to_string(kPayloadAlignment) + ": place payloads at multiples of " +
                      std::to_string(kPayloadAlignment) + " bytes");
}

void require_status(Place& place, StatusView status) {
  require_at_least("status", status.size(), 1);
  require_device("status", status.device(), place.device());
}

}  // namespace

void seal_payload(Place& place, PayloadHeader header, View<std::byte> payload, StatusView status) {
  require_status(place, status);
  require_device("payload", payload.device(), place.device());
  require_payload(payload, header.payload_bytes);
  LACONIC_CHECK(header.payload_bytes >= sizeof(PayloadHeader));
  LACONIC_CHECK(header.payload_bytes % kPayloadAlignment == 0U);
  const Touch touch(place);
  header.magic = kPayloadMagic;
  header.version = kWireVersion;
  if (status[0].nonfinite != 0) header.flags |= kNonfiniteFlag;
  header.checksum = 0;
  std::memcpy(payload.data(), &header, sizeof(header));
  header.checksum = checksum(place, payload.sub(0, header.payload_bytes));
  std::memcpy(payload.data(), &header, sizeof(header));
  status[0].payload_bytes = header.payload_bytes;
}

bool open_payload(Place& place, View<const std::byte> payload, Codec codec, PayloadHeader& header, StatusView status) {
  require_status(place, status);
  require_device("payload", payload.device(), place.device());
  require_aligned(payload);
  const std::uint64_t size = payload.size();
  if (size < sizeof(header)) return note_fault(place, status, PayloadFault::too_short, size, size, sizeof(header));
  header = read_header(place, payload);

  const auto refuse = [&](PayloadFault fault, std::size_t offset, std::uint64_t found, std::uint64_t expected) {
    return note_fault(place, status, fault, offset, found, expected);
  };
  if (header.magic != kPayloadMagic) {
    return refuse(PayloadFault::wrong_magic, offsetof(PayloadHeader, magic), header.magic, kPayloadMagic);
  }
  if (header.version != kWireVersion) {
    return refuse(PayloadFault::wrong_version, offsetof(PayloadHeader, version), header.version, kWireVersion);
  }
  if (header.codec != static_cast<std::uint8_t>(codec)) {
    return refuse(PayloadFault::wrong_codec, offsetof(PayloadHeader, codec), header.codec,
                  static_cast<std::uint64_t>(codec));
  }
  if (header.payload_bytes < sizeof(header) || header.payload_bytes % kPayloadAlignment != 0) {
    return refuse(PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes), header.payload_bytes, size);
  }
  if (header.payload_bytes > size) return refuse(PayloadFault::too_short, size, size, header.payload_bytes);
  const std::uint32_t found =
      checksum_with_hole(place, payload.sub(0, header.payload_bytes), offsetof(PayloadHeader, checksum));
  if (found != header.checksum) {
    return refuse(PayloadFault::wrong_checksum, offsetof(PayloadHeader, checksum), header.checksum, found);
  }
  return true;
}

void flag_payload(Place& place, View<std::byte> payload, StatusView status) {
  seal_payload(place, read_header(place, payload), payload, status);
}

bool is_flagged(Place& place, View<const std::byte> payload) {
  return (read_header(place, payload).flags & kNonfiniteFlag) != 0;
}

PayloadHeader read_header(Place& place, View<const std::byte> payload) {
  const Touch touch(place);
  PayloadHeader header;
  std::memcpy(&header, payload.data(), sizeof(header));
  return header;
}

bool note_fault(Place& place, StatusView status, PayloadFault fault, std::uint64_t offset, std::uint64_t found,
                std::uint64_t expected) {
  Status noted = read_status(place, status);
  if (noted.fault != PayloadFault::none) return false;
  noted.fault = fault;
  noted.fault_offset = offset;
  noted.fault_found = found;
  noted.fault_expected = expected;
  write_status(place, status, noted);
  return false;
}

void require_payload(View<std::byte> payload, std::uint64_t needed) {
  require_aligned(payload);
  if (payload.size() >= needed) return;
  throw InvalidConfig("view payload has " + std::to_string(payload.size()) + " bytes, encoding may need " +
                      std::to_string(needed) + ": allocate max_payload_bytes() of the codec");
}

void require_format(ValueFormat format) {
  if (format <= ValueFormat::bf16) return;
  throw InvalidConfig("value format must be 0 (f32), 1 (f16) or 2 (bf16), got " +
                      std::to_string(static_cast<int>(format)) + ": use the names of ValueFormat");
}

void put_values(Place& place, View<const float> values, ValueFormat format, View<std::byte> payload,
                std::uint64_t offset, StatusView status) {
  if (format == ValueFormat::f32) {
    // A sum of one part: a copy that looks for NaN and Inf on its way.
    const std::array<View<const float>, 1> parts{values};
    sum_in_rank_order(place, parts, 1.0F, body_of<float>(payload, offset, values.size()), status);
  } else {
    to_16bit(place, values, format, body_of<std::uint16_t>(payload, offset, values.size()), status);
  }
  put_filling(place, payload, offset + values.size() * bytes_of(format), offset + value_bytes(values.size(), format));
}

void get_values(Place& place, View<const std::byte> payload, std::uint64_t offset, ValueFormat format,
                View<float> values) {
  if (format == ValueFormat::f32) {
    copy(place, body_of<float>(payload, offset, values.size()), values);
  } else {
    from_16bit(place, body_of<std::uint16_t>(payload, offset, values.size()), format, values);
  }
}

void add_values(Place& place, View<const std::byte> payload, std::uint64_t offset, ValueFormat format,
                View<float> values) {
  if (format == ValueFormat::f32) {
    axpy(place, 1.0F, body_of<float>(payload, offset, values.size()), values);
  } else {
    add_from_16bit(place, body_of<std::uint16_t>(payload, offset, values.size()), format, values);
  }
}

void put_filling(Place& place, View<std::byte> payload, std::uint64_t from, std::uint64_t to) {
  if (from < to) std::memset(payload.data() + from, 0, to - from);
}

bool check_filling(Place& place, View<const std::byte> payload, std::uint64_t from, std::uint64_t to,
                   StatusView status) {
  for (; from < to; ++from) {
    const auto found = std::to_integer<std::uint64_t>(payload[from]);
    if (found != 0) return note_fault(place, status, PayloadFault::wrong_length, from, found, 0);
  }
  return true;
}

bool check_elements(Place& place, const PayloadHeader& header, std::uint64_t expected, StatusView status) {
  if (header.elements == expected) return true;
  return note_fault(place, status, PayloadFault::wrong_elements, offsetof(PayloadHeader, elements), header.elements,
                    expected);
}

bool check_format(Place& place, const PayloadHeader& header, std::uint8_t expected, StatusView status) {
  if (header.format == expected) return true;
  return note_fault(place, status, PayloadFault::wrong_format, offsetof(PayloadHeader, format), header.format,
                    expected);
}

bool check_flags(Place& place, const PayloadHeader& header, std::uint8_t allowed, StatusView status) {
  if ((header.flags & ~unsigned{allowed}) == 0) return true;
  return note_fault(place, status, PayloadFault::wrong_format, offsetof(PayloadHeader, flags), header.flags,
                    header.flags & unsigned{allowed});
}

bool check_length(Place& place, const PayloadHeader& header, std::uint64_t expected, StatusView status) {
  if (header.payload_bytes == expected) return true;
  return note_fault(place, status, PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes),
                    header.payload_bytes,
                    expected);
}

bool check_count(Place& place, const PayloadHeader& header, std::uint32_t expected, PayloadFault fault,
                 StatusView status) {
  if (header.count == expected) return true;
  return note_fault(place, status, fault, offsetof(PayloadHeader, count), header.count, expected);
}

bool accept(Place& place, const PayloadHeader& header, StatusView status) {
  if ((header.flags & kNonfiniteFlag) == 0) return true;
  Status noted = read_status(place, status);
  noted.nonfinite = 1;
  write_status(place, status, noted);
  return true;
}

}  // namespace laconic
