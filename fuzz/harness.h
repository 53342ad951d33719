#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codecs/payload.h"
#include "laconic/place.h"
#include "laconic/status.h"

// What the targets share. An input of the five decoders is
//   byte 0: bit 0, mend magic, version, codec and checksum, so that what lies behind them is reached;
//           bit 1, take a sound payload and xor the rest of the input over it, instead of the rest as it is;
//           bit 2, when mending, also write the true length; the other bits are the target's
//   byte 1: which case, that is sizes and formats
//   rest:   the payload, or what is xored over it

namespace laconic::fuzz {

/// Ends the program if a promise is broken; libFuzzer keeps the input.
void require(bool promise);

/// One place for all inputs: one thread, the level that LACONIC_SIMD names or the best.
Place& place();

/// Entries with guard zones around them, all set to a value that tells whether they were written.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t n) : storage_(n + 2 * kGuard, kSentinel), n_(n) {}
  View<T> view() { return {storage_.data() + kGuard, n_}; }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (storage_[i] != kSentinel || storage_[kGuard + n_ + i] != kSentinel) return false;
    }
    return true;
  }
  bool untouched() const {
    for (const T value : storage_) {
      if (value != kSentinel) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr T kSentinel = static_cast<T>(123);
  std::vector<T> storage_;
  std::size_t n_;
};

/// Turns an input into a payload; `sound` is what a sender would have written in this case.
std::vector<std::byte> payload_of(const std::uint8_t* input, std::size_t size, Codec codec,
                                  const std::vector<std::byte>& sound);

/// The promise that holds for every decoder: it returns false exactly when it notes a fault.
void check_outcome(bool accepted, const Status& status);

/// The largest view that a case has.
inline constexpr std::uint64_t kMostEntries = 2'000;

/// A size from the input's case byte: 0, 1, around 32 and 512, and some between, at most kMostEntries.
std::size_t size_of_case(std::uint8_t choice);

/// Values for sound payloads: finite, of many magnitudes.
std::vector<float> some_values(std::size_t n);

}  // namespace laconic::fuzz
