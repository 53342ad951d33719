#include "codecs/received.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/check.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "codecs/body.h"
#include "codecs/twins.h"
#include "kernels/checksum/checksum.h"
#include "kernels/cuda.h"

namespace laconic {

void require_received(Place& place, View<const std::byte> payload) {
  require_same_device("payload", payload.device(), place.device());
  require_aligned(payload);
}

Received::Received(Place& place, View<const std::byte> payload, StatusView status)
    : place_(place), payload_(payload), status_(status) {
  require_at_least("status", status.size(), 1);
  require_same_device("status", status.device(), place.device());
  require_received(place, payload);
}

bool Received::open(Codec codec) {
  if (!has_size()) return false;
  header_ = read_header(place_, payload_);
  return judge(codec, [&] {
    return checksum_with_hole(place_, payload_.sub(0, header_.payload_bytes), offsetof(PayloadHeader, checksum));
  });
}

bool Received::open(Codec codec, const Inspection& found) {
  if (!has_size()) return false;
  header_ = found.header;
  wrong_word_ = found.wrong_word;
  return judge(codec, [&] { return found.checksum; });
}

bool open_each(Place& place, std::size_t count, RangeOf range_of, Codec codec, [[maybe_unused]] Received::Words words,
               StatusView status, FunctionRef<bool(Received&, const ReceivedRange&, std::size_t)> check) {
  std::array<Inspection, kInspectedAtOnce> found;
  const bool on_device = place.device() == Device::cuda;
  for (std::size_t i = 0; i < count; ++i) {
    if (on_device && i % found.size() == 0) {
      const auto together = std::span(found).first(std::min(found.size(), count - i));
      for (std::size_t j = 0; j < together.size(); ++j) require_received(place, range_of(i + j).payload);
      [[maybe_unused]] const auto from_here = [&](std::size_t j) { return range_of(i + j); };
      LACONIC_CUDA_CALL(inspect, place, from_here, words, together);
    }
    const ReceivedRange range = range_of(i);
    Received received(place, range.payload, status);
    const bool opened = on_device ? received.open(codec, found[i % found.size()]) : received.open(codec);
    if (!opened || !check(received, range, i)) return false;
  }
  return true;
}

bool Received::has_size() {
  const std::uint64_t size = payload_.size();
  return size >= sizeof(PayloadHeader) || refuse(PayloadFault::too_short, size, size, sizeof(PayloadHeader));
}

bool Received::judge(Codec codec, FunctionRef<std::uint32_t()> checksum) {
  const std::uint64_t size = payload_.size();
  if (header_.magic != kPayloadMagic) {
    return refuse(PayloadFault::wrong_magic, offsetof(PayloadHeader, magic), header_.magic, kPayloadMagic);
  }
  if (header_.version != kWireVersion) {
    return refuse(PayloadFault::wrong_version, offsetof(PayloadHeader, version), header_.version, kWireVersion);
  }
  if (header_.codec != static_cast<std::uint8_t>(codec)) {
    return refuse(PayloadFault::wrong_codec, offsetof(PayloadHeader, codec), header_.codec,
                  static_cast<std::uint64_t>(codec));
  }
  if (header_.payload_bytes < sizeof(PayloadHeader) || header_.payload_bytes % kPayloadAlignment != 0) {
    return refuse(PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes), header_.payload_bytes, size);
  }
  if (header_.payload_bytes > size) return refuse(PayloadFault::too_short, size, size, header_.payload_bytes);
  const std::uint32_t found = checksum();
  if (found == header_.checksum) return true;
  return refuse(PayloadFault::wrong_checksum, offsetof(PayloadHeader, checksum), header_.checksum, found);
}

bool Received::has_flags(std::uint8_t allowed) {
  const unsigned kept = header_.flags & unsigned{allowed};
  return header_.flags == kept ||
         refuse(PayloadFault::wrong_format, offsetof(PayloadHeader, flags), header_.flags, kept);
}

bool Received::has_format(std::uint8_t expected) {
  return header_.format == expected ||
         refuse(PayloadFault::wrong_format, offsetof(PayloadHeader, format), header_.format, expected);
}

bool Received::has_elements(std::uint64_t expected) {
  return header_.elements == expected ||
         refuse(PayloadFault::wrong_elements, offsetof(PayloadHeader, elements), header_.elements, expected);
}

bool Received::has_count(std::uint32_t expected, PayloadFault fault) {
  return header_.count == expected || refuse(fault, offsetof(PayloadHeader, count), header_.count, expected);
}

bool Received::has_length(std::uint64_t expected) {
  return header_.payload_bytes == expected ||
         refuse(PayloadFault::wrong_length, offsetof(PayloadHeader, payload_bytes), header_.payload_bytes, expected);
}

bool Received::has_sound(Words words, const ReceivedRange& range) {
  const bool on_device = place_.device() == Device::cuda;
  if (on_device && wrong_word_ == kNoWord) return true;
  const Touch touch(place_);
  bool sound = true;
  std::uint32_t number = 0;
  words(range, [&](const WordCheck& check) {
    if (!has_rule(check) || !sound) return;
    if (on_device && number++ != wrong_word_) return;
    sound = has_sound(check);
  });
  return sound;
}

bool Received::has_sound(const WordCheck& check) {
  View<const std::uint32_t> words = body_of<std::uint32_t>(payload_, check.offset, check.words);
  std::vector<std::uint32_t> copied;
  if (place_.device() == Device::cuda) {
    copied.resize(words.size());
    copy_to_cpu(place_, words, copied.data());
    words = View<const std::uint32_t>(copied);
  }
  WordCheck one = check;
  for (const std::uint32_t word : words) {
    if (!has_sound(one, word)) return false;
    one.offset += sizeof(word);
  }
  return true;
}

bool Received::has_sound(const WordCheck& check, std::uint32_t word) {
  if (check.allows(word)) return true;
  switch (check.rule) {
    case WordCheck::Rule::norm: return refuse(PayloadFault::wrong_norm, check.offset, word, 0);
    case WordCheck::Rule::zero_bits: return refuse(PayloadFault::wrong_length, check.offset, word, word & ~check.zeros);
    case WordCheck::Rule::zero_bytes: break;
  }
  const int byte = std::countr_zero(word & check.zeros) / 8;
  return refuse(PayloadFault::wrong_length, check.offset + static_cast<std::uint64_t>(byte), word >> 8 * byte & 0xFFU,
                0);
}

bool Received::refuse(PayloadFault fault, std::uint64_t offset, std::uint64_t found, std::uint64_t expected) {
  return note_fault(place_, status_, fault, offset, found, expected);
}

bool Received::accept() {
  if ((header_.flags & kNonfiniteFlag) != 0) set_nonfinite(place_, status_);
  return true;
}

}  // namespace laconic
