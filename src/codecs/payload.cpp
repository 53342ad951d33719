#include "codecs/payload.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "codecs/body.h"
#include "codecs/twins.h"
#include "kernels/checksum/checksum.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little, "wire structs are written as they lie in memory");

void require_status(Place& place, StatusView status) {
  require_at_least("status", status.size(), 1);
  require_same_device("status", status.device(), place.device());
}

}  // namespace

void require_aligned(View<const std::byte> payload) {
  const auto rest = reinterpret_cast<std::uintptr_t>(payload.data()) % kPayloadAlignment;
  if (rest == 0) return;
  throw InvalidConfig("payload starts " + std::to_string(rest) + " bytes behind a multiple of " +
                      std::to_string(kPayloadAlignment) + ": place payloads at multiples of " +
                      std::to_string(kPayloadAlignment) + " bytes");
}

void seal_payload(Place& place, PayloadHeader header, View<std::byte> payload, StatusView status) {
  require_status(place, status);
  require_same_device("payload", payload.device(), place.device());
  require_payload(payload, header.payload_bytes);
  LACONIC_CHECK(header.payload_bytes >= sizeof(PayloadHeader));
  LACONIC_CHECK(header.payload_bytes % kPayloadAlignment == 0U);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(seal, place, header, payload.sub(0, header.payload_bytes), status);
  }
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

void flag_payload(Place& place, View<std::byte> payload, StatusView status) {
  if (place.device() == Device::cuda) {
    require_status(place, status);
    require_same_device("payload", payload.device(), place.device());
    require_payload(payload, sizeof(PayloadHeader));
    return LACONIC_CUDA_CALL(seal_written, place, payload, status);
  }
  seal_payload(place, read_header(place, payload), payload, status);
}

void read_lengths(Place& place, std::span<const View<const std::byte>> payloads, std::span<std::uint64_t> lengths) {
  require_size("lengths", lengths.size(), payloads.size());
  for (const View<const std::byte> payload : payloads) {
    require_same_device("payload", payload.device(), place.device());
    require_at_least("payload", payload.size(), sizeof(PayloadHeader));
    require_aligned(payload);
  }
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(read_lengths, place, payloads, lengths);
  for (std::size_t i = 0; i < payloads.size(); ++i) lengths[i] = read_header(place, payloads[i]).payload_bytes;
}

bool is_flagged(Place& place, View<const std::byte> payload) {
  return (read_header(place, payload).flags & kNonfiniteFlag) != 0;
}

void note_flagged(Place& place, Each<View<const std::byte>> payloads, int first_rank, StatusView status,
                  bool only_if_none) {
  require_status(place, status);
  auto rank = static_cast<std::uint32_t>(first_rank);
  if (place.device() == Device::cuda) {
    payloads([&](View<const std::byte> payload) { require_same_device("payload", payload.device(), place.device()); });
    return LACONIC_CUDA_CALL(note_flagged, place, payloads, rank, status, only_if_none);
  }
  payloads([&](View<const std::byte> payload) {
    const std::uint32_t candidate = ++rank;
    if (!is_flagged(place, payload)) return;
    const Touch touch(place);
    Status& noted = status[0];
    if (only_if_none && noted.nonfinite_rank != 0) return;
    noted.nonfinite = 1;
    if (noted.nonfinite_rank == 0 || candidate < noted.nonfinite_rank) noted.nonfinite_rank = candidate;
  });
}

PayloadHeader read_header(Place& place, View<const std::byte> payload) {
  require_same_device("payload", payload.device(), place.device());
  std::array<std::byte, sizeof(PayloadHeader)> bytes{};
  copy_to_cpu<std::byte>(place, payload.sub(0, bytes.size()), bytes.data());
  return std::bit_cast<PayloadHeader>(bytes);
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

void put_values(Place& place, ConstGradientView values, ValueFormat format, View<std::byte> payload,
                std::uint64_t offset, StatusView status) {
  convert(place, values, values_in(payload, offset, format, values.size()), status);
  put_filling(place, payload, offset + values.size() * bytes_of(format), offset + value_bytes(values.size(), format));
}

void get_values(Place& place, View<const std::byte> payload, std::uint64_t offset, ValueFormat format,
                GradientView values) {
  convert(place, values_in(payload, offset, format, values.size()), values);
}

void set_nonfinite(Place& place, StatusView status) {
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(set_nonfinite, place, status);
  const Touch touch(place);
  status[0].nonfinite = 1;
}

void put_filling(Place& place, View<std::byte> payload, std::uint64_t from, std::uint64_t to) {
  if (from >= to) return;
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(put_zeros, place, payload.sub(from, to - from));
  std::memset(payload.data() + from, 0, to - from);
}

}  // namespace laconic
