#include "codecs/sign.h"

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

/// Bits behind a tensor's last sign must be zero.
template <class Check>
void check_tails(const Layout& layout, std::uint64_t begin, std::uint64_t end, const Check& check) {
  std::uint64_t offset = sizeof(PayloadHeader);
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    check(filling_of(offset, slice.count, WordCheck::Rule::zero_bits));
    offset += sign_words(slice.count) * sizeof(std::uint32_t);
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

void encode(Place& place, View<const float> values, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<std::byte> payload, StatusView status) {
  const auto out = body(payload, layout, begin, end);
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  std::uint64_t word = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const std::uint64_t count = sign_words(slice.count);
    pack_signs(place, values.sub(slice.offset - begin, slice.count), out.sub(word, count), status);
    word += count;
  });
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

bool open(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
          View<const std::uint32_t>& words_of_payload, StatusView status) {
  const Touch touch(place);
  words_of_payload = {};
  const std::uint64_t count = words(layout, begin, end);
  const auto tails = [&](const auto& check) { check_tails(layout, begin, end, check); };
  Received received(place, payload, status);
  if (!received.open(Codec::sign, tails) || !received.has_flags(kNonfiniteFlag) ||
      !received.has_format(kSignFormat) || !received.has_elements(end - begin) ||
      !received.has_count(0, PayloadFault::wrong_count) ||
      !received.has_length(sizeof(PayloadHeader) + count * sizeof(std::uint32_t)) || !received.has_sound(tails)) {
    return false;
  }
  words_of_payload = body_of<std::uint32_t>(payload, sizeof(PayloadHeader), count);
  return received.accept();
}

bool decode(Place& place, View<const std::byte> payload, const Layout& layout, std::uint64_t begin, std::uint64_t end,
            View<float> values, StatusView status) {
  require_size("values", values.size(), end - begin);
  const Touch touch(place);
  View<const std::uint32_t> found;
  if (!open(place, payload, layout, begin, end, found, status)) return false;
  std::uint64_t word = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    const std::uint64_t count = sign_words(slice.count);
    unpack_signs(place, found.sub(word, count), 1.0F, values.sub(slice.offset - begin, slice.count));
    word += count;
  });
  return true;
}

}  // namespace laconic::sign
