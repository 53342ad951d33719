#include "codecs/uniform.h"

#include <algorithm>
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

namespace laconic::uniform {
namespace {

std::uint64_t norms_in(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t norms = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) { norms += layout.scopes_in(slice.count); });
  return norms;
}

/// The fields of a slice and the norms of its scopes.
struct Section {
  Slice slice;
  std::uint64_t norms;  ///< their number
  std::uint64_t norms_offset;
  std::uint64_t fields_offset;
  std::uint64_t field_bytes;
};

/// Calls body(Section) for each slice, in order.
template <class Body>
void for_each_section(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits, Body&& body) {
  std::uint64_t norms_offset = sizeof(PayloadHeader);
  std::uint64_t fields_offset = norms_offset + norms_in(layout, begin, end) * sizeof(float);
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const Section section{slice, layout.scopes_in(slice.count), norms_offset, fields_offset,
                          quantized_bytes(slice.count, bits)};
    body(section);
    norms_offset += section.norms * sizeof(float);
    fields_offset += padded(section.field_bytes);
  });
}

/// Where a range may be cut.
std::uint64_t alignment_of(const Layout& layout) { return std::max(kPackGroup, layout.scope()); }

/// A norm that is finite and not negative; 0, with the flag set, for one that is not finite: its payload must still
/// travel, so that all ranks learn of the flag.
float sendable(Place& place, float norm, std::uint64_t scope, StatusView status) {
  if (!std::isfinite(norm)) {
    set_nonfinite(place, status);
    return 0.0F;
  }
  if (norm < 0.0F) {
    throw InvalidConfig("norm of scope " + std::to_string(scope) + " must be 0 or more, got " + std::to_string(norm) +
                        ": take it with scope_norms");
  }
  return norm;
}

bool has_sender_norm(Received& received) {
  const WordCheck check = norms_at(offsetof(PayloadHeader, count), 1);
  return received.has_sound(check, received.header().count);
}

/// Norms sound, and zero bits behind the last field of each slice.
template <class Check>
void check_sections(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits, const Check& check) {
  check(norms_at(sizeof(PayloadHeader), norms_in(layout, begin, end)));
  for_each_section(layout, begin, end, bits, [&](const Section& section) {
    check(filling_of(section.fields_offset, section.slice.count * static_cast<std::uint64_t>(bits)));
  });
}

/// Calls take(range, its number, its sender's norm) for each that is sound, up to the first that is not.
template <class Take>
bool open_ranges(Place& place, std::size_t count, RangeOf range_of, const Layout& layout, int bits, StatusView status,
                 const Take& take) {
  levels_of(bits);  // refuses bits out of range
  for (std::size_t i = 0; i < count; ++i) {
    const ReceivedRange range = range_of(i);
    require_cuts(layout, range.begin, range.end, alignment_of(layout));
  }
  const auto sections = [&](const ReceivedRange& range, const auto& check) {
    check_sections(layout, range.begin, range.end, bits, check);
  };
  const auto take_sound = [&](Received& received, const ReceivedRange& range, std::size_t i) {
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(static_cast<std::uint8_t>(bits)) &&
                       received.has_elements(range.size()) && has_sender_norm(received) &&
                       received.has_length(max_payload_bytes(layout, range.begin, range.end, bits)) &&
                       received.has_sound(sections, range);
    if (!sound) return false;
    take(range, i, std::bit_cast<float>(received.header().count));
    return received.accept();
  };
  return open_each(place, count, range_of, Codec::uniform, sections, status, take_sound);
}

/// Of sound payloads of one range.
void write_sum(Place& place, std::span<const View<const std::byte>> payloads, const Layout& layout, std::uint64_t begin,
             std::uint64_t end, int bits, float divisor, GradientView values, StatusView status) {
  const auto sections = [&](const auto& body) {
    for_each_section(layout, begin, end, bits, [&](const Section& section) {
      body(DequantizeSection{section.norms_offset, section.fields_offset,
                             values.sub(section.slice.offset - begin, section.slice.count)});
    });
  };
  dequantize_sum(place, payloads, sections, bits, layout.scope(), divisor, status);
}

/// Writes `from`, the norms of neighbouring scopes from `first` on, as receivers may see them.
void put_norms(Place& place, View<const float> from, std::uint64_t first, View<float> to, StatusView status) {
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(put_norms, place, from, to, status);
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = sendable(place, from[i], first + i, status);
}

/// Writes the norms of all slices. Those of neighbouring scopes lie one after another.
void put_norms(Place& place, View<const float> norms, const Layout& layout, std::uint64_t begin, std::uint64_t end,
               View<std::byte> payload, StatusView status) {
  const auto to = body_of<float>(payload, sizeof(PayloadHeader), norms_in(layout, begin, end));
  std::uint64_t written = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  const auto put = [&] {
    put_norms(place, norms.sub(first, count), first, to.sub(written, count), status);
    written += count;
  };
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const std::uint64_t next = layout.first_scope(slice);
    if (next != first + count) {
      put();
      first = next;
      count = 0;
    }
    count += layout.scopes_in(slice.count);
  });
  put();
}

}  // namespace

std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end, int bits) {
  levels_of(bits);
  require_cuts(layout, begin, end, alignment_of(layout));
  std::uint64_t total = sizeof(PayloadHeader);
  for_each_section(layout, begin, end, bits, [&](const Section& section) {
    total += section.norms * sizeof(float) + padded(section.field_bytes);
  });
  return total;
}

void scope_norms(Place& place, ConstGradientView flat, const Layout& layout, Norm kind, View<float> norms,
                 StatusView status) {
  require_size("flat", flat.size(), layout.size());
  require_size("norms", norms.size(), layout.scopes());
  if (layout.scope() != 0) return laconic::scope_norms(place, flat, layout.scope(), kind, norms, status);
  const auto tensors = [&](const auto& body) {
    for (std::size_t tensor = 0; tensor < layout.tensors(); ++tensor) {
      body(NormPart{flat.sub(layout.offset(tensor), layout.size(tensor)), norms.sub(tensor, 1)});
    }
  };
  laconic::norms(place, tensors, kind, status);
}

void encode(Place& place, ConstGradientView values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<const float> norms, int bits, const RandomStream& stream, View<std::byte> payload, StatusView status,
            float sender_norm, const RoundingOptions& rounding) {
  const std::uint64_t total = max_payload_bytes(layout, begin, end, bits);
  require_payload(payload, total);
  require_size("values", values.size(), end - begin);
  require_size("norms", norms.size(), layout.scopes());
  if (!rounding.rest.empty()) require_size("rest", rounding.rest.size(), values.size());
  require_at_least("status", status.size(), 1);
  require_same_device("payload", payload.device(), place.device());
  require_same_device("values", values.device(), place.device());
  require_same_device("norms", norms.device(), place.device());
  require_same_device("status", status.device(), place.device());
  const Touch touch(place);
  put_norms(place, norms, layout, begin, end, payload, status);
  const auto slices = [&](const auto& body) {
    for_each_section(layout, begin, end, bits, [&](const Section& section) {
      const Slice& slice = section.slice;
      const std::uint64_t at = slice.offset - begin;
      body(QuantizeSlice{values.sub(at, slice.count), body_of<float>(payload, section.norms_offset, section.norms),
                         payload.sub(section.fields_offset, padded(section.field_bytes)), layout.number(slice.tensor),
                         slice.first, rounding.rest.empty() ? View<float>() : rounding.rest.sub(at, slice.count)});
    });
  };
  quantize(place, slices, {.bits = bits, .rounding = stream, .kind = rounding.kind, .scope = layout.scope()});
  PayloadHeader header = header_of(Codec::uniform, static_cast<std::uint8_t>(bits), total, end - begin);
  header.count = std::bit_cast<std::uint32_t>(sendable(place, sender_norm, 0, status));
  seal_payload(place, header, payload, status);
}

bool decode_add(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin,
                std::uint64_t end, int bits, View<float> values, StatusView status, float* sender_norm) {
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  const auto range_of = [&](std::size_t) { return ReceivedRange{payload, begin, end}; };
  const auto take = [&](const ReceivedRange&, std::size_t, float norm) {
    if (sender_norm != nullptr) *sender_norm = norm;
  };
  if (!open_ranges(place, 1, range_of, layout, bits, status, take)) return false;
  const auto slices = [&](const auto& body) {
    for_each_section(layout, begin, end, bits, [&](const Section& section) {
      body(DequantizeSlice{payload.sub(section.fields_offset, section.field_bytes),
                           body_of<float>(payload, section.norms_offset, section.norms),
                           values.sub(section.slice.offset - begin, section.slice.count)});
    });
  };
  dequantize_add(place, slices, bits, layout.scope());
  return true;
}

bool decode_sum(Place& place, std::span<const View<const std::byte>> payloads, const Layout& layout,
                std::uint64_t begin, std::uint64_t end, int bits, float divisor, GradientView values, StatusView status,
                std::span<float> sender_norms) {
  require_size("values", values.size(), end - begin);
  require_size("sender_norms", sender_norms.size(), payloads.size());
  const Touch touch(place);
  const auto range_of = [&](std::size_t i) { return ReceivedRange{payloads[i], begin, end}; };
  const auto take = [&](const ReceivedRange&, std::size_t i, float norm) { sender_norms[i] = norm; };
  if (!open_ranges(place, payloads.size(), range_of, layout, bits, status, take)) return false;
  write_sum(place, payloads, layout, begin, end, bits, divisor, values, status);
  return true;
}

bool decode(Place& place, std::span<const ReceivedRange> ranges, const Layout& layout, int bits, float divisor,
            GradientView view, StatusView status) {
  require_size("view", view.size(), layout.size());
  const Touch touch(place);
  const auto range_of = [&](std::size_t i) { return ranges[i]; };
  const auto take = [&](const ReceivedRange& range, std::size_t, float) {
    write_sum(place, {&range.payload, 1}, layout, range.begin, range.end, bits, divisor,
            view.sub(range.begin, range.size()), status);
  };
  return open_ranges(place, ranges.size(), range_of, layout, bits, status, take);
}

}  // namespace laconic::uniform
