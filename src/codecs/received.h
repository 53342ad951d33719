#pragma once

#include <span>

#include "base/function_ref.h"
#include "codecs/payload.h"
#include "codecs/word_check.h"

namespace laconic {

/// What a device tells the CPU about a received payload.
struct Inspection {
  PayloadHeader header;
  std::uint32_t checksum;    ///< over as many bytes as the header says, or as there are
  std::uint32_t wrong_word;  ///< number of the first WordCheck that failed, or kNoWord
};
inline constexpr std::uint32_t kNoWord = 0xFFFF'FFFF;

/// A received payload and the checks that a decoder makes before it writes anything. Each check notes its fault in the
/// status and returns false. For this layer only.
class Received {
 public:
  /// Calls its argument for every word of a range's sound body that has a rule, in the order in which they are checked.
  using Words = FunctionRef<void(const ReceivedRange&, FunctionRef<void(const WordCheck&)>)>;

  Received(Place& place, View<const std::byte> payload, StatusView status);

  /// Magic, version, codec, lengths and checksum. On the CPU.
  bool open(Codec codec);
  /// The same with what a device has found. There the words are looked at already, so that `has_sound` need not wait.
  bool open(Codec codec, const Inspection& found);
  const PayloadHeader& header() const { return header_; }

  bool has_flags(std::uint8_t allowed);
  bool has_format(std::uint8_t expected);
  bool has_elements(std::uint64_t expected);
  bool has_count(std::uint32_t expected, PayloadFault fault);
  bool has_length(std::uint64_t expected);
  /// The words of a payload that has the length that they belong to.
  bool has_sound(Words words, const ReceivedRange& range);
  /// Whether a word that was read keeps the rule; check.offset is the word's.
  bool has_sound(const WordCheck& check, std::uint32_t word);

  /// Notes a fault; returns false.
  bool refuse(PayloadFault fault, std::uint64_t offset, std::uint64_t found, std::uint64_t expected);
  /// Copies the sender's non-finite flag into the status. Returns true.
  bool accept();

 private:
  bool has_size();
  bool has_sound(const WordCheck& check);
  bool judge(Codec codec, FunctionRef<std::uint32_t()> checksum);

  Place& place_;
  View<const std::byte> payload_;
  StatusView status_;
  PayloadHeader header_{};
  std::uint32_t wrong_word_ = kNoWord;
};

/// The most payloads that a device inspects in one wait.
inline constexpr std::size_t kInspectedAtOnce = 32;

/// The view of a payload that a decoder was given.
void require_received(Place& place, View<const std::byte> payload);

/// The payloads that a decoder was given, and their ranges.
using RangeOf = FunctionRef<ReceivedRange(std::size_t)>;

/// Opens so many payloads one after another and calls check(received, its range, its number) for each, which makes the
/// other checks and takes what is in it. Ends at the first one that is refused, and returns false. On a device it waits
/// once for many payloads, and not once for each.
bool open_each(Place& place, std::size_t count, RangeOf range_of, Codec codec, Received::Words words, StatusView status,
               FunctionRef<bool(Received&, const ReceivedRange&, std::size_t)> check);

}  // namespace laconic
