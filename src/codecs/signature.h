#pragma once

#include <cstdint>

namespace laconic {

/// A hash of the numbers that all ranks must have drawn alike, for payloads without indices. If a number changes, the
/// hash changes too, except in one case in 2^32: each number is mixed in by the finalizer of splitmix64 (Steele, Lea,
/// Flood 2014). docs/wire-format.md specifies it.
class Signature {
 public:
  explicit Signature(std::uint64_t start) : hash_(start) {}

  Signature& mix(std::uint64_t number) {
    hash_ = (hash_ ^ number) + 0x9E3779B97F4A7C15U;
    hash_ = (hash_ ^ hash_ >> 30) * 0xBF58476D1CE4E5B9U;
    hash_ = (hash_ ^ hash_ >> 27) * 0x94D049BB133111EBU;
    hash_ = hash_ ^ hash_ >> 31;
    return *this;
  }
  std::uint32_t low_word() const { return static_cast<std::uint32_t>(hash_); }

 private:
  std::uint64_t hash_;
};

}  // namespace laconic
