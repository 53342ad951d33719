#include "codecs/uniform.h"

#include <bit>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/keep.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/cuts.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/quantize.h"

namespace laconic::uniform {
namespace {

std::uint64_t slices_of(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t slices = 0;
  layout.for_each_slice(begin, end, [&](const Slice&) { ++slices; });
  return slices;
}

/// Calls body(slice, offset of its norm, offset of its fields, bytes of its fields) for each slice, in order.
template <class Body>
void for_each_section(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits, Body&& body) {
  std::uint64_t norm_offset = sizeof(PayloadHeader);
  std::uint64_t fields_offset = norm_offset + slices_of(layout, begin, end) * sizeof(float);
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const std::uint64_t bytes = quantized_bytes(slice.count, bits);
    body(slice, norm_offset, fields_offset, bytes);
    norm_offset += sizeof(float);
    fields_offset += padded(bytes);
  });
}

/// A norm that is finite and not negative; 0, with the flag set, for one that is not finite: its payload must still
/// travel, so that all ranks learn of the flag.
float sendable(float norm, std::uint32_t tensor, StatusView status) {
  if (!std::isfinite(norm)) {
    status[0].nonfinite = 1;
    return 0.0F;
  }
  if (norm < 0.0F) {
    throw InvalidConfig("norm of tensor " + std::to_string(tensor) + " must be 0 or more, got " + std::to_string(norm) +
                        ": take it with tensor_norms");
  }
  return norm;
}

bool check_sender_norm(Place& place, const PayloadHeader& header, StatusView status) {
  const auto norm = std::bit_cast<float>(header.count);
  if (norm >= 0.0F && std::isfinite(norm)) return true;
  return note_fault(place, status, PayloadFault::wrong_norm, offsetof(PayloadHeader, count), header.count, 0);
}

/// Norms sound, and zero bits behind the last field of each slice.
bool check_sections(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                    std::uint64_t end,
                    int bits, StatusView status) {
  bool sound = true;
  for_each_section(layout, begin, end, bits,
                   [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t bytes) {
                     if (!sound) return;
                     const float norm = body_of<float>(payload, norm_offset, 1)[0];
                     if (!(norm >= 0.0F && std::isfinite(norm))) {
                       const auto found = body_of<std::uint32_t>(payload, norm_offset, 1)[0];
                       sound = note_fault(place, status, PayloadFault::wrong_norm, norm_offset, found, 0);
                       return;
                     }
                     const std::uint64_t tail_bits = slice.count * static_cast<std::uint64_t>(bits) % 8;
                     const auto last = std::to_integer<std::uint64_t>(payload[offset + bytes - 1]);
                     if (tail_bits != 0 && last >> tail_bits != 0) {
                       sound = note_fault(place, status, PayloadFault::wrong_length, offset + bytes - 1, last, 0);
                       return;
                     }
                     sound = check_filling(place, payload, offset + bytes, offset + padded(bytes), status);
                   });
  return sound;
}

}  // namespace

std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits) {
  levels_of(bits);
  require_cuts(layout, begin, end, kPackGroup);
  std::uint64_t total = sizeof(PayloadHeader);
  for_each_section(layout, begin, end, bits, [&](const Slice&, std::uint64_t, std::uint64_t, std::uint64_t bytes) {
    total += sizeof(float) + padded(bytes);
  });
  return total;
}

void tensor_norms(Place& place, View<const float> flat, const Layout& layout, Norm kind, View<float> norms,
                  StatusView status) {
  require_size("flat", flat.size(), layout.size());
  require_size("norms", norms.size(), layout.tensors());
  for (std::size_t tensor = 0; tensor < layout.tensors(); ++tensor) {
    norm(place, flat.sub(layout.offset(tensor), layout.size(tensor)), kind, norms.sub(tensor, 1), status);
  }
}

void encode(Place& place, View<const float> values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<const float> norms, int bits, const RandomStream& stream, View<std::byte> payload, StatusView status,
            float sender_norm) {
  const std::uint64_t total = max_payload_bytes(layout, begin, end, bits);
  require_payload(payload, total);
  require_size("values", values.size(), end - begin);
  require_size("norms", norms.size(), layout.tensors());
  require_at_least("status", status.size(), 1);
  require_device("payload", payload.device(), place.device());
  const Touch touch(place);
  for_each_section(
      layout, begin, end, bits,
      [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t bytes) {
        const auto norm = body_of<float>(payload, norm_offset, 1);
        norm[0] = sendable(norms[slice.tensor], slice.tensor, status);
        const Quantizer quantizer{.bits = bits, .rounding = stream.of_tensor(layout.number(slice.tensor)),
                                  .first = slice.first};
        quantize(place, values.sub(slice.offset - begin, slice.count), norm, quantizer, payload.sub(offset, bytes));
        put_filling(place, payload, offset + bytes, offset + padded(bytes));
      });
  PayloadHeader header = header_of(Codec::uniform, static_cast<std::uint8_t>(bits), total, end - begin);
  header.count = std::bit_cast<std::uint32_t>(sendable(sender_norm, 0, status));
  seal_payload(place, header, payload, status);
}

bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status) {
  const std::uint64_t total = max_payload_bytes(layout, begin, end, bits);
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  PayloadHeader header;
  if (!open_payload(place, payload, Codec::uniform, header, status) ||
      !check_flags(place, header, kNonfiniteFlag, status) ||
      !check_format(place, header, static_cast<std::uint8_t>(bits), status) ||
      !check_elements(place, header, end - begin, status) ||
      !check_sender_norm(place, header, status) || !check_length(place, header, total, status) ||
      !check_sections(place, payload, layout, begin, end, bits, status)) {
    return false;
  }
  for_each_section(layout, begin, end, bits,
                   [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t bytes) {
                     dequantize_add(place, payload.sub(offset, bytes), body_of<float>(payload, norm_offset, 1), bits,
                                    values.sub(slice.offset - begin, slice.count));
                   });
  return accept(place, header, status);
}

float sender_norm(Place& place, View<const std::byte> payload) {
  return std::bit_cast<float>(read_header(place, payload).count);
}

}  // namespace laconic::uniform
