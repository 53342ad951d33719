#include "codecs/sparse.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "codecs/body.h"
#include "codecs/sparse_layout.h"
#include "kernels/sparse/indices.h"

namespace laconic::sparse {
namespace {

constexpr std::uint64_t kIndices = std::uint64_t{1} << 32;  // how many there are

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
  View<const std::byte> payload;  ///< cut to payload_bytes
  IndexRange range;
  View<std::uint32_t> indices;  ///< as many as the header counts
  std::uint64_t value_bytes;    ///< of as many values
};

/// Whether a payload whose indices take `index_bytes` is as long as this one, and if not notes that.
bool has_length(Place& place, const Incoming& incoming, std::uint64_t index_bytes, StatusView status) {
  const std::uint64_t expected = kIndicesOffset + index_bytes + incoming.value_bytes;
  if (incoming.payload.size() == expected) return true;
  return note_fault(place, status, PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes),
                    incoming.payload.size(),
                    expected);
}

bool wrong_indices(Place& place, const Incoming& incoming, StatusView status) {
  return note_fault(place, status, PayloadFault::wrong_index, kIndicesOffset, incoming.indices.size(),
                    incoming.range.size);
}

bool get_raw(Place& place, const Incoming& incoming, std::uint64_t& bytes, StatusView status) {
  const std::uint64_t count = incoming.indices.size();
  bytes = raw_bytes(count);
  if (!has_length(place, incoming, bytes, status)) return false;
  const auto relative = body_of<std::uint32_t>(incoming.payload, kIndicesOffset, count);
  return indices_of_relative(place, relative, incoming.range.first, incoming.range.size, incoming.indices) ||
         wrong_indices(place, incoming, status);
}

bool get_bitmap(Place& place, const Incoming& incoming, std::uint64_t& bytes, StatusView status) {
  bytes = bitmap_bytes(incoming.range.size);
  if (!has_length(place, incoming, bytes, status)) return false;
  const auto words = body_of<std::uint32_t>(incoming.payload, kIndicesOffset, bytes / sizeof(std::uint32_t));
  return indices_of_bitmap(place, words, incoming.range.first, incoming.range.size, incoming.indices) ||
         wrong_indices(place, incoming, status);
}

bool check_widths(Place& place, View<const std::uint8_t> widths, StatusView status) {
  for (std::size_t group = 0; group < widths.size(); ++group) {
    if (widths[group] <= 32) continue;
    return note_fault(place, status, PayloadFault::wrong_format, kIndicesOffset + group, widths[group], 32);
  }
  return true;
}

/// Bits behind the last gap, in its byte and up to the end of the section, must be zero.
bool check_gap_tail(Place& place, const Incoming& incoming, std::uint8_t last_width, std::uint64_t end,
                    std::uint64_t section_end,
                    StatusView status) {
  const std::uint64_t tail_bits = incoming.indices.size() % kGapGroup * last_width % 8;
  if (tail_bits != 0) {
    const auto last = std::to_integer<std::uint64_t>(incoming.payload[end - 1]);
    if (last >> tail_bits != 0) return note_fault(place, status, PayloadFault::wrong_length, end - 1, last, 0);
  }
  return check_filling(place, incoming.payload, end, section_end, status);
}

bool get_gaps(Place& place, const Incoming& incoming, std::uint64_t& bytes, StatusView status) {
  const std::uint64_t count = incoming.indices.size();
  const std::uint64_t groups_offset = kIndicesOffset + width_bytes(count);
  if (incoming.payload.size() < groups_offset) {
    return note_fault(place, status, PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes),
                      incoming.payload.size(), groups_offset);
  }
  const auto widths = body_of<std::uint8_t>(incoming.payload, kIndicesOffset, gap_groups(count));
  if (!check_widths(place, widths, status)) return false;
  bytes = gap_bytes(count, widths);
  if (!has_length(place, incoming, bytes, status) ||
      !check_filling(place, incoming.payload, kIndicesOffset + widths.size(), groups_offset, status)) {
    return false;
  }
  std::uint64_t end = groups_offset;
  for_each_run(count, widths, [&](std::uint64_t first, std::uint64_t entries, int width, std::uint64_t offset) {
    const auto packed = incoming.payload.sub(groups_offset + offset, packed_bytes(entries, width));
    unpack_fields(place, packed, width, incoming.indices.sub(first, entries));
    end = groups_offset + offset + packed.size();
  });
  const std::uint8_t last_width = widths.empty() ? 0 : widths[widths.size() - 1];
  if (!check_gap_tail(place, incoming, last_width, end, kIndicesOffset + bytes, status)) return false;
  return indices_of_gaps(place, incoming.range.first, incoming.range.size, incoming.indices) ||
         wrong_indices(place, incoming, status);
}

bool get_indices(Place& place, IndexCoding coding, const Incoming& incoming, std::uint64_t& bytes, StatusView status) {
  switch (coding) {
    case IndexCoding::raw: return get_raw(place, incoming, bytes, status);
    case IndexCoding::gaps: return get_gaps(place, incoming, bytes, status);
    case IndexCoding::bitmap: return get_bitmap(place, incoming, bytes, status);
  }
  return note_fault(place, status, PayloadFault::wrong_format, offsetof(PayloadHeader, flags),
                    static_cast<unsigned>(coding),
                    2);
}

/// Header, count and range: everything before the indices.
bool open(Place& place, View<const std::byte> payload, IndexRange range, ValueFormat format, std::uint64_t capacity,
          PayloadHeader& header, StatusView status) {
  if (!open_payload(place, payload, Codec::sparse, header, status) ||
      !check_flags(place, header, kNonfiniteFlag | kCodingMask, status) ||
      !check_format(place, header, static_cast<std::uint8_t>(format), status) ||
      !check_elements(place, header, range.size, status)) {
    return false;
  }
  const std::uint64_t most = std::min<std::uint64_t>(capacity, range.size);
  if (header.count > most) {
    return note_fault(place, status, PayloadFault::wrong_count, offsetof(PayloadHeader, count), header.count, most);
  }
  if (header.payload_bytes < kIndicesOffset) return check_length(place, header, kIndicesOffset, status);
  std::uint64_t first = 0;
  std::memcpy(&first, payload.data() + kFirstOffset, sizeof(first));
  if (first != range.first) {
    return note_fault(place, status, PayloadFault::wrong_elements, kFirstOffset, first, range.first);
  }
  return true;
}

}  // namespace

std::uint64_t max_payload_bytes(std::uint64_t count, std::uint64_t size, ValueFormat format) {
  return kIndicesOffset + std::min(raw_bytes(count), bitmap_bytes(size)) + value_bytes(count, format);
}

void encode(Place& place, ConstSparseView entries, IndexRange range, ValueFormat format, View<std::byte> payload,
            StatusView status) {
  require_format(format);
  require_range(range);
  require_size("values", entries.values.size(), entries.indices.size());
  const std::uint64_t count = entries.size();
  require_payload(payload, max_payload_bytes(count, range.size, format));
  const Touch touch(place);

  const Workspace::Scope scope(place.workspace());
  const auto gaps = place.workspace().take<std::uint32_t>(count);
  const auto widths = place.workspace().take<std::uint8_t>(gap_groups(count));
  const std::uint64_t sound = gaps_of_indices(place, entries.indices, range.first, range.size, gaps, widths);
  if (sound != count) refuse_index(entries.indices, sound, range);

  const auto [coding, bytes] = choose_coding(count, range.size, widths);
  const auto section = payload.sub(kIndicesOffset, bytes);
  std::memcpy(payload.data() + kFirstOffset, &range.first, sizeof(range.first));
  switch (coding) {
    case IndexCoding::raw:
      indices_from_first(place, entries.indices, range.first, body_of<std::uint32_t>(section, 0, count));
      break;
    case IndexCoding::gaps: put_gaps(place, gaps, widths, section); break;
    case IndexCoding::bitmap:
      bitmap_of_indices(place, entries.indices, range.first,
                        body_of<std::uint32_t>(section, 0, bytes / sizeof(std::uint32_t)));
      break;
  }
  put_values(place, entries.values, format, payload, kIndicesOffset + bytes, status);

  PayloadHeader header = header_of(Codec::sparse, static_cast<std::uint8_t>(format),
                                   kIndicesOffset + bytes + value_bytes(count, format), range.size);
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(coding) << kCodingShift);
  header.count = static_cast<std::uint32_t>(count);
  seal_payload(place, header, payload, status);
}

std::uint64_t peek_count(Place& place, View<const std::byte> payload) {
  if (payload.size() < sizeof(PayloadHeader)) return 0;
  PayloadHeader header;
  std::memcpy(&header, payload.data(), sizeof(header));
  return header.count;
}

bool decode(Place& place, View<const std::byte> payload, IndexRange range, ValueFormat format, SparseView entries,
            StatusView status) {
  require_format(format);
  require_range(range);
  require_size("values", entries.values.size(), entries.indices.size());
  require_at_least("status", status.size(), 1);
  require_device("status", status.device(), place.device());
  const Touch touch(place);
  status[0].count = 0;
  PayloadHeader header;
  if (!open(place, payload, range, format, entries.size(), header, status)) return false;

  const Incoming incoming{payload.sub(0, header.payload_bytes), range, entries.indices.sub(0, header.count),
                          value_bytes(header.count, format)};
  const auto coding = static_cast<IndexCoding>((header.flags & kCodingMask) >> kCodingShift);
  std::uint64_t bytes = 0;
  if (!get_indices(place, coding, incoming, bytes, status)) return false;
  const std::uint64_t values_offset = kIndicesOffset + bytes;
  const std::uint64_t values_end = values_offset + header.count * bytes_of(format);
  if (!check_filling(place, payload, values_end, header.payload_bytes, status)) return false;
  get_values(place, payload, values_offset, format, entries.values.sub(0, header.count));
  status[0].count = header.count;
  return accept(place, header, status);
}

}  // namespace laconic::sparse
