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

bool open(Place& place, std::span<const View<const std::byte>> payloads, const Layout& layout, std::uint64_t begin,
          std::uint64_t end, std::span<View<const std::uint32_t>> words_of_payloads, StatusView status) {
  const Touch touch(place);
  require_size("words", words_of_payloads.size(), payloads.size());
  std::fill(words_of_payloads.begin(), words_of_payloads.end(), View<const std::uint32_t>());
  const std::uint64_t count = words(layout, begin, end);
  const auto tails = [&](const auto& check) { check_tails(layout, begin, end, check); };
  return open_each(place, payloads, Codec::sign, tails, status, [&](Received& received, std::size_t i) {
    const bool sound = received.has_flags(kNonfiniteFlag) && received.has_format(kSignFormat) &&
                       received.has_elements(end - begin) && received.has_count(0, PayloadFault::wrong_count) &&
                       received.has_length(sizeof(PayloadHeader) + count * sizeof(std::uint32_t)) &&
                       received.has_sound(tails);
    if (!sound) return false;
    words_of_payloads[i] = body_of<std::uint32_t>(payloads[i], sizeof(PayloadHeader), count);
    return received.accept();
  });
}

bool open(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
          View<const std::uint32_t>& words_of_payload, StatusView status) {
  return open(place, {&payload, 1}, layout, begin, end, {&words_of_payload, 1}, status);
}

bool decode(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            GradientView values, StatusView status) {
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  View<const std::uint32_t> found;
  if (!open(place, payload, layout, begin, end, found, status)) return false;
  const auto slices = [&](const auto& unpack) {
    for_each_section(layout, begin, end, [&](const Slice& slice, std::uint64_t word, std::uint64_t count) {
      unpack(SignsToUnpack{found.sub(word, count), values.sub(slice.offset - begin, slice.count)});
    });
  };
  unpack_signs(place, slices, 1.0F);
  return true;
}

}  // namespace laconic::sign
