#include "codecs/sign.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/cuts.h"
#include "codecs/received.h"
#include "kernels/sign/sign.h"

namespace laconic::sign {
namespace {

constexpr std::uint8_t kSignFormat = 1;

PayloadHeader header_for(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  return header_of(Codec::sign, kSignFormat, max_payload_bytes(layout, begin, end), end - begin);
}

/// Calls body(slice, its first word, number of its words) for each slice, in order.
template <class Body>
void for_each_section(const Layout& layout, std::uint64_t begin, std::uint64_t end, Body&& body) {
  std::uint64_t word = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const std::uint64_t count = sign_words(slice.count);
    body(slice, word, count);
    word += count;
  });
}

/// Bits behind a tensor's last sign must be zero.
template <class Check>
void check_tails(const Layout& layout, std::uint64_t begin, std::uint64_t end, const Check& check) {
  for_each_section(layout, begin, end, [&](const Slice& slice, std::uint64_t word, std::uint64_t /*count*/) {
    check(filling_of(sizeof(PayloadHeader) + word * sizeof(std::uint32_t), slice.count, WordCheck::Rule::zero_bits));
  });
}

}  // namespace

std::uint64_t words(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  require_cuts(layout, begin, end, kSignsPerWord);
  std::uint64_t total = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) { total += sign_words(slice.count); });
  return total;
}

std::uint64_t max_payload_bytes(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  return sizeof(PayloadHeader) + words(layout, begin, end) * sizeof(std::uint32_t);
}

void encode(Place& place, ConstGradientView values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<std::byte> payload, StatusView status) {
  const auto out = body(payload, layout, begin, end);
  require_size("values", values.size(), end - begin);
  require_same_device("payload", payload.device(), place.device());
  require_same_device("values", values.device(), place.device());
  const Touch touch(place);
  const auto slices = [&](const auto& pack) {
    for_each_section(layout, begin, end, [&](const Slice& slice, std::uint64_t word, std::uint64_t count) {
      pack(SignsToPack{values.sub(slice.offset - begin, slice.count), out.sub(word, count)});
    });
  };
  pack_signs(place, slices, status);
  seal(place, layout, begin, end, payload, status);
}

View<std::uint32_t> body(View<std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t count = words(layout, begin, end);
  require_payload(payload, sizeof(PayloadHeader) + count * sizeof(std::uint32_t));
  return body_of<std::uint32_t>(payload, sizeof(PayloadHeader), count);
}

void seal(Place& place, const Layout& layout, std::uint64_t begin, std::uint64_t end, View<std::byte> payload,
          StatusView status) {
  seal_payload(place, header_for(layout, begin, end), payload, status);
}

bool open(Place& place, std::span<const ReceivedRange> ranges, const Layout& layout,
          std::span<View<const std::uint32_t>> words_of_ranges, StatusView status) {
  const Touch touch(place);
  require_size("words", words_of_ranges.size(), ranges.size());
  for (const ReceivedRange& range : ranges) require_cuts(layout, range.begin, range.end, kSignsPerWord);
  std::fill(words_of_ranges.begin(), words_of_ranges.end(), View<const std::uint32_t>());
  const auto tails = [&](const ReceivedRange& range, const auto& check) {
    check_tails(layout, range.begin, range.end, check);
  };
  const auto take_sound = [&](Received& received, const ReceivedRange& range, std::size_t i) {
    const std::uint64_t count = words(layout, range.begin, range.end);
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(kSignFormat) &&
                       received.has_elements(range.size()) && received.has_count(0, PayloadFault::wrong_count) &&
                       received.has_length(sizeof(PayloadHeader) + count * sizeof(std::uint32_t)) &&
                       received.has_sound(tails, range);
    if (!sound) return false;
    words_of_ranges[i] = body_of<std::uint32_t>(range.payload, sizeof(PayloadHeader), count);
    return received.accept();
  };
  const auto range_of = [&](std::size_t i) { return ranges[i]; };
  return open_each(place, ranges.size(), range_of, Codec::sign, tails, status, take_sound);
}

bool open(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
          View<const std::uint32_t>& words_of_payload, StatusView status) {
  const ReceivedRange range{payload, begin, end};
  return open(place, {&range, 1}, layout, {&words_of_payload, 1}, status);
}

void unpack(Place& place, View<const std::uint32_t> from, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            GradientView values) {
  require_size("words", from.size(), words(layout, begin, end));
  require_size("values", values.size(), end - begin);
  const auto slices = [&](const auto& unpack_slice) {
    for_each_section(layout, begin, end, [&](const Slice& slice, std::uint64_t word, std::uint64_t count) {
      unpack_slice(SignsToUnpack{from.sub(word, count), values.sub(slice.offset - begin, slice.count)});
    });
  };
  unpack_signs(place, slices, 1.0F);
}

bool decode(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            GradientView values, StatusView status) {
  require_size("values", values.size(), end - begin);
  View<const std::uint32_t> found;
  if (!open(place, payload, layout, begin, end, found, status)) return false;
  unpack(place, found, layout, begin, end, values);
  return true;
}

}  // namespace laconic::sign
