#include "codecs/uniform.h"

#include <bit>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/keep.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/cuts.h"
#include "codecs/received.h"
#include "codecs/twins.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/cuda.h"
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
float sendable(Place& place, float norm, std::uint32_t tensor, StatusView status) {
  if (!std::isfinite(norm)) {
    set_nonfinite(place, status);
    return 0.0F;
  }
  if (norm < 0.0F) {
    throw InvalidConfig("norm of tensor " + std::to_string(tensor) + " must be 0 or more, got " + std::to_string(norm) +
                        ": take it with tensor_norms");
  }
  return norm;
}

bool has_sender_norm(Received& received) {
  const WordCheck check = norm_at(offsetof(PayloadHeader, count));
  return received.has_sound(check, received.header().count);
}

/// Norms sound, and zero bits behind the last field of each slice.
template <class Check>
void check_sections(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits, const Check& check) {
  for_each_section(layout, begin, end, bits,
                   [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t /*bytes*/) {
                     check(norm_at(norm_offset));
                     check(filling_of(offset, slice.count * static_cast<std::uint64_t>(bits)));
                   });
}

/// Writes the norms of all slices as receivers may see them.
void put_norms(Place& place, View<const float> norms, const Layout& layout, std::uint64_t begin, std::uint64_t end,
               View<std::byte> payload, StatusView status) {
  const auto to = body_of<float>(payload, sizeof(PayloadHeader), slices_of(layout, begin, end));
  if (place.device() == Device::cuda) {
    const auto tensors = [&](const auto& body) {
      layout.for_each_slice(begin, end, [&](const Slice& slice) { body(slice.tensor); });
    };
    return LACONIC_CUDA_CALL(put_norms, place, norms, tensors, to, status);
  }
  std::size_t next = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    to[next++] = sendable(place, norms[slice.tensor], slice.tensor, status);
  });
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
  require_same_device("payload", payload.device(), place.device());
  require_same_device("norms", norms.device(), place.device());
  require_same_device("status", status.device(), place.device());
  const Touch touch(place);
  put_norms(place, norms, layout, begin, end, payload, status);
  for_each_section(
      layout, begin, end, bits,
      [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t bytes) {
        const auto norm = body_of<float>(payload, norm_offset, 1);
        const Quantizer quantizer{.bits = bits, .rounding = stream.of_tensor(layout.number(slice.tensor)),
                                  .first = slice.first};
        quantize(place, values.sub(slice.offset - begin, slice.count), norm, quantizer, payload.sub(offset, bytes));
        put_filling(place, payload, offset + bytes, offset + padded(bytes));
      });
  PayloadHeader header = header_of(Codec::uniform, static_cast<std::uint8_t>(bits), total, end - begin);
  header.count = std::bit_cast<std::uint32_t>(sendable(place, sender_norm, 0, status));
  seal_payload(place, header, payload, status);
}

bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status) {
  const std::uint64_t total = max_payload_bytes(layout, begin, end, bits);
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  const auto sections = [&](const auto& check) { check_sections(layout, begin, end, bits, check); };
  Received received(place, payload, status);
  if (!received.open(Codec::uniform, sections) || !received.has_flags(kNonfiniteFlag) ||
      !received.has_format(static_cast<std::uint8_t>(bits)) || !received.has_elements(end - begin) ||
      !has_sender_norm(received) || !received.has_length(total) || !received.has_sound(sections)) {
    return false;
  }
  for_each_section(layout, begin, end, bits,
                   [&](const Slice& slice, std::uint64_t norm_offset, std::uint64_t offset, std::uint64_t bytes) {
                     dequantize_add(place, payload.sub(offset, bytes), body_of<float>(payload, norm_offset, 1), bits,
                                    values.sub(slice.offset - begin, slice.count));
                   });
  return received.accept();
}

float sender_norm(Place& place, View<const std::byte> payload) {
  return std::bit_cast<float>(read_header(place, payload).count);
}

}  // namespace laconic::uniform
