#include "codecs/sparse.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "codecs/body.h"
#include "codecs/sparse_layout.h"
#include "codecs/sparse_received.h"
#include "codecs/sparse_twins.h"
#include "codecs/twins.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/coded/coded.h"
#include "kernels/cuda.h"
#include "kernels/sparse/indices.h"

namespace laconic::sparse {
namespace {

constexpr std::uint64_t kIndices = std::uint64_t{1} << 32;  // how many there are

void require_sparse_format(ValueFormat format) {
  if (!is_coded(format)) require_format(format);
}

void require_range(IndexRange range) {
  if (range.first <= kIndices && range.size <= kIndices - range.first) return;
  throw InvalidConfig("index range of " + std::to_string(range.size) + " entries from " + std::to_string(range.first) +
                      " on ends beyond 2^32: indices have 32 bits, so split the view into scopes");
}

[[noreturn]] void refuse_index(View<const std::uint32_t> indices, std::uint64_t position, IndexRange range) {
  throw InvalidConfig("entry " + std::to_string(position) + " has index " + std::to_string(indices[position]) +
                      ": indices must ascend strictly and lie in " + std::to_string(range.first) + ".." +
                      std::to_string(range.first + range.size) + ", the end not included");
}

void put_gaps(Place& place, View<const std::uint32_t> gaps, View<const std::uint8_t> widths, View<std::byte> section) {
  std::memcpy(section.data(), widths.data(), widths.size());
  const std::uint64_t groups_offset = width_bytes(gaps.size());
  put_filling(place, section, widths.size(), groups_offset);
  std::uint64_t end = groups_offset;
  for_each_run(gaps.size(), widths, [&](std::uint64_t first, std::uint64_t entries, int width, std::uint64_t offset) {
    const std::uint64_t bytes = packed_bytes(entries, width);
    pack_fields(place, gaps.sub(first, entries), width, section.sub(groups_offset + offset, bytes));
    end = groups_offset + offset + bytes;
  });
  put_filling(place, section, end, section.size());
}

/// What a decoder knows once the header has been checked.
struct Incoming {
  Received& received;
  View<const std::byte> payload;  ///< cut to payload_bytes
  IndexRange range;
  View<std::uint32_t> indices;  ///< as many as the header counts
  std::uint64_t value_bytes;    ///< of as many values, with magnitudes

  /// Whether a payload whose indices take `index_bytes` is as long as this one.
  bool has_length(std::uint64_t index_bytes) const {
    return received.has_length(kIndicesOffset + index_bytes + value_bytes);
  }
  bool has_sound(const WordCheck& check) const {
    return !has_rule(check) || received.has_sound(check, body_of<std::uint32_t>(payload, check.offset, 1)[0]);
  }
  bool refuse_indices() const {
    return received.refuse(PayloadFault::wrong_index, kIndicesOffset, indices.size(), range.size);
  }
};

bool get_raw(Place& place, const Incoming& incoming, std::uint64_t& bytes) {
  const std::uint64_t count = incoming.indices.size();
  bytes = raw_bytes(count);
  if (!incoming.has_length(bytes)) return false;
  const auto relative = body_of<std::uint32_t>(incoming.payload, kIndicesOffset, count);
  return indices_of_relative(place, relative, incoming.range.first, incoming.range.size, incoming.indices) ||
         incoming.refuse_indices();
}

bool get_bitmap(Place& place, const Incoming& incoming, std::uint64_t& bytes) {
  bytes = bitmap_bytes(incoming.range.size);
  if (!incoming.has_length(bytes)) return false;
  const auto words = body_of<std::uint32_t>(incoming.payload, kIndicesOffset, bytes / sizeof(std::uint32_t));
  return indices_of_bitmap(place, words, incoming.range.first, incoming.range.size, incoming.indices) ||
         incoming.refuse_indices();
}

bool check_widths(Received& received, View<const std::uint8_t> widths) {
  for (std::size_t group = 0; group < widths.size(); ++group) {
    if (widths[group] <= kMostWidth) continue;
    return received.refuse(PayloadFault::wrong_format, kIndicesOffset + group, widths[group], kMostWidth);
  }
  return true;
}

bool get_gaps(Place& place, const Incoming& incoming, std::uint64_t& bytes) {
  const std::uint64_t count = incoming.indices.size();
  const std::uint64_t groups_offset = kIndicesOffset + width_bytes(count);
  if (incoming.payload.size() < groups_offset) return incoming.received.has_length(groups_offset);
  const auto widths = body_of<std::uint8_t>(incoming.payload, kIndicesOffset, gap_groups(count));
  if (!check_widths(incoming.received, widths)) return false;
  const std::uint64_t bits = gap_bits(count, widths);
  bytes = gap_bytes(count, bits);
  if (!incoming.has_length(bytes) || !incoming.has_sound(filling_of(kIndicesOffset, 8 * widths.size()))) return false;
  for_each_run(count, widths, [&](std::uint64_t first, std::uint64_t entries, int width, std::uint64_t offset) {
    const auto packed = incoming.payload.sub(groups_offset + offset, packed_bytes(entries, width));
    unpack_fields(place, packed, width, incoming.indices.sub(first, entries));
  });
  if (!incoming.has_sound(filling_of(groups_offset, bits))) return false;
  return indices_of_gaps(place, incoming.range.first, incoming.range.size, incoming.indices) ||
         incoming.refuse_indices();
}

bool get_indices(Place& place, const Incoming& incoming, std::uint64_t& bytes) {
  const unsigned coding = coding_of(incoming.received.header());
  switch (static_cast<IndexCoding>(coding)) {
    case IndexCoding::raw: return get_raw(place, incoming, bytes);
    case IndexCoding::gaps: return get_gaps(place, incoming, bytes);
    case IndexCoding::bitmap: return get_bitmap(place, incoming, bytes);
  }
  return refuse_coding(incoming.received);
}

/// On the CPU: everything up to the values, whose offset it finds.
bool get_indices_on_cpu(Place& place, const ReceivedList& list, const ValueSection& section, Received& received,
                        std::uint64_t& values_offset) {
  if (!received.open(Codec::sparse) || !has_header(received, list, section.format)) return false;
  const PayloadHeader& header = received.header();
  std::uint64_t first = 0;
  std::memcpy(&first, list.payload.data() + kFirstOffset, sizeof(first));
  if (!has_first(received, first, list.range)) return false;
  const Incoming incoming{received, list.payload.sub(0, header.payload_bytes), list.range,
                          list.entries.indices.sub(0, header.count), section.bytes(header.count)};
  std::uint64_t bytes = 0;
  if (!get_indices(place, incoming, bytes)) return false;
  values_offset = kIndicesOffset + bytes;
  for (std::uint64_t i = 0; i < section.magnitudes(header.count); ++i) {
    if (!incoming.has_sound(norms_at(values_offset + i * sizeof(float), 1))) return false;
  }
  return incoming.has_sound(filling_of(values_offset, section.bits(header.count)));
}

/// Values as magnitudes and fields.
void put_coded(Place& place, ConstSparseView entries, IndexRange range, const ValueCoding& coding,
               View<std::byte> payload, std::uint64_t offset, StatusView status) {
  const ValueSection section = section_of(coding, range);
  const std::uint64_t count = entries.size();
  if (count == 0) return;
  const Workspace::Scope scope(place.workspace());
  const auto fields = place.workspace().take<std::uint32_t>(count);
  coded_fields(place, coding.format, coding.cuts, coding.scopes_of(range), entries,
               body_of<float>(payload, offset, section.magnitudes(count)), fields, status);
  const std::uint64_t fields_offset = offset + section.magnitude_bytes(count);
  const std::uint64_t bytes = packed_bytes(count, field_bits(coding.format));
  pack_fields(place, fields, field_bits(coding.format), payload.sub(fields_offset, bytes));
  put_filling(place, payload, fields_offset + bytes, offset + section.bytes(count));
}

/// The values of a list whose indices are there, from that offset of its payload on.
void get_list_values(Place& place, const ReceivedList& list, std::uint64_t offset, const ValueCoding& coding) {
  const SparseView entries = list.entries.sub(0, list.count);
  if (!is_coded(coding.format)) return get_values(place, list.payload, offset, coding.format, entries.values);
  if (list.count == 0) return;
  const ValueSection section = section_of(coding, list.range);
  const Workspace::Scope scope(place.workspace());
  const auto fields = place.workspace().take<std::uint32_t>(list.count);
  const std::uint64_t bytes = packed_bytes(list.count, field_bits(coding.format));
  unpack_fields(place, list.payload.sub(offset + section.magnitude_bytes(list.count), bytes), field_bits(coding.format),
                fields);
  coded_values(place, coding.format, coding.cuts, coding.scopes_of(list.range), entries.indices, fields,
               body_of<float>(list.payload, offset, section.magnitudes(list.count)), entries.values);
}

void require_list(Place& place, const ReceivedList& list) {
  require_range(list.range);
  require_size("values", list.entries.values.size(), list.entries.indices.size());
  require_same_device("indices", list.entries.indices.device(), place.device());
  require_same_device("values", list.entries.values.device(), place.device());
  require_received(place, list.payload);
}

void set_count(Place& place, std::uint64_t count, StatusView status) {
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(set_count, place, count, status);
  status[0].count = count;
}

}  // namespace

std::uint64_t max_payload_bytes(std::uint64_t count, IndexRange range, const ValueCoding& coding) {
  return kIndicesOffset + std::min(raw_bytes(count), bitmap_bytes(range.size)) + section_of(coding, range).bytes(count);
}

void encode(Place& place, ConstSparseView entries, IndexRange range, const ValueCoding& coding, View<std::byte> payload,
            StatusView status) {
  require_sparse_format(coding.format);
  require_range(range);
  require_size("values", entries.values.size(), entries.indices.size());
  require_same_device("indices", entries.indices.device(), place.device());
  require_same_device("values", entries.values.device(), place.device());
  require_same_device("payload", payload.device(), place.device());
  require_same_device("status", status.device(), place.device());
  require_at_least("status", status.size(), 1);
  const std::uint64_t count = entries.size();
  const std::uint64_t most = max_payload_bytes(count, range, coding);
  require_payload(payload, most);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(encode_sparse, place, entries, range, coding, payload.sub(0, most), status);
  }
  const Touch touch(place);

  const Workspace::Scope scope(place.workspace());
  const auto gaps = place.workspace().take<std::uint32_t>(count);
  const auto widths = place.workspace().take<std::uint8_t>(gap_groups(count));
  const std::uint64_t sound = gaps_of_indices(place, entries.indices, range.first, range.size, gaps, widths);
  if (sound != count) refuse_index(entries.indices, sound, range);

  const auto [index_coding, bytes] = choose_coding(count, range.size, gap_bits(count, widths));
  const auto section = payload.sub(kIndicesOffset, bytes);
  std::memcpy(payload.data() + kFirstOffset, &range.first, sizeof(range.first));
  switch (index_coding) {
    case IndexCoding::raw:
      indices_from_first(place, entries.indices, range.first, body_of<std::uint32_t>(section, 0, count));
      break;
    case IndexCoding::gaps: put_gaps(place, gaps, widths, section); break;
    case IndexCoding::bitmap:
      bitmap_of_indices(place, entries.indices, range.first,
                        body_of<std::uint32_t>(section, 0, bytes / sizeof(std::uint32_t)));
      break;
  }
  if (is_coded(coding.format)) {
    put_coded(place, entries, range, coding, payload, kIndicesOffset + bytes, status);
  } else {
    put_values(place, entries.values, coding.format, payload, kIndicesOffset + bytes, status);
  }
  PayloadHeader header = header_of(Codec::sparse, static_cast<std::uint8_t>(coding.format),
                                   kIndicesOffset + bytes + section_of(coding, range).bytes(count), range.size);
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(index_coding) << kCodingShift);
  header.count = static_cast<std::uint32_t>(count);
  seal_payload(place, header, payload, status);
}

bool decode(Place& place, std::span<ReceivedList> lists, const ValueCoding& coding, StatusView status) {
  require_sparse_format(coding.format);
  for (ReceivedList& list : lists) {
    require_list(place, list);
    list.count = 0;
  }
  const Touch touch(place);
  const bool on_device = place.device() == Device::cuda;
  std::array<cuda::SparseInspection, kInspectedAtOnce> found;
  std::uint64_t total = 0;
  bool sound = true;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (on_device && i % found.size() == 0) {
      [[maybe_unused]] const auto together = lists.subspan(i, std::min(found.size(), lists.size() - i));
      LACONIC_CUDA_CALL(inspect_sparse, place, together, coding, std::span(found).first(together.size()));
    }
    ReceivedList& list = lists[i];
    Received received(place, list.payload, status);
    const ValueSection section = section_of(coding, list.range);
    std::uint64_t offset = 0;
    sound = on_device ? has_sound_indices(received, found[i % found.size()], list, section, offset)
                      : get_indices_on_cpu(place, list, section, received, offset);
    if (!sound) break;
    list.count = received.header().count;
    total += list.count;
    get_list_values(place, list, offset, coding);
    received.accept();
  }
  set_count(place, sound ? total : 0, status);
  return sound;
}

}  // namespace laconic::sparse
