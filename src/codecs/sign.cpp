#include "codecs/sign.h"

#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "codecs/body.h"
#include "codecs/cuts.h"
#include "kernels/sign/sign.h"

namespace laconic::sign {
namespace {

constexpr std::uint8_t kSignFormat = 1;

PayloadHeader header_for(const Layout& layout, std::uint64_t begin, std::uint64_t end) {
  return header_of(Codec::sign, kSignFormat, max_payload_bytes(layout, begin, end), end - begin);
}

/// Bits behind a tensor's last sign must be zero.
bool check_tails(Place& place, View<const std::uint32_t> words, const Layout& layout, std::uint64_t begin,
                 std::uint64_t end,
                 StatusView status) {
  bool sound = true;
  std::uint64_t word = 0;
  layout.for_each_slice(begin, end, [&](const Slice& slice) {
    word += sign_words(slice.count);
    const std::uint64_t used = slice.count % kSignsPerWord;
    if (used == 0 || words[word - 1] >> used == 0) return;
    sound = note_fault(place, status, PayloadFault::wrong_length, sizeof(PayloadHeader) + 4 * (word - 1),
                       words[word - 1],
                       words[word - 1] & ((std::uint32_t{1} << used) - 1));
  });
  return sound;
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
  PayloadHeader header;
  if (!open_payload(place, payload, Codec::sign, header, status) ||
      !check_flags(place, header, kNonfiniteFlag, status) ||
      !check_format(place, header, kSignFormat, status) || !check_elements(place, header, end - begin, status) ||
      !check_count(place, header, 0, PayloadFault::wrong_count, status) ||
      !check_length(place, header, sizeof(header) + count * sizeof(std::uint32_t), status)) {
    return false;
  }
  const auto found = body_of<std::uint32_t>(payload, sizeof(header), count);
  if (!check_tails(place, found, layout, begin, end, status)) return false;
  words_of_payload = found;
  return accept(place, header, status);
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
