#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "laconic/view.h"

namespace laconic {

/// A setting of a method, by its name and as text.
using SettingText = std::pair<std::string, std::string>;

/// One rank's memory of a method between steps: numbers, arrays and texts by name. The caller writes it to a file.
class State {
 public:
  void put(const std::string& name, View<const float> values);
  void put(const std::string& name, View<const std::uint32_t> values);
  void put(const std::string& name, double value);
  void put(const std::string& name, const std::string& text);
  /// Throws InvalidConfig if the name is missing or the size differs from the view's.
  void get(const std::string& name, View<float> values) const;
  void get(const std::string& name, View<std::uint32_t> values) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  /// A number that counts something. Throws InvalidConfig if it is not whole or not in 0..most.
  std::uint64_t count(const std::string& name, std::uint64_t most = kMostCounted) const;
  /// Throws InvalidConfig if the number, or a value of the array of floats, is not in [low, high].
  void require_in(const std::string& name, double low, double high) const;
  /// A state inside a state, for a method that is built on another.
  void put(const std::string& name, const State& part);
  State nested(const std::string& name) const;
  /// Entries of an array; 0 if there is no array of that name.
  std::uint64_t size(const std::string& name) const;
  /// Throws InvalidConfig if an entry of the other is missing here, or is of another kind or size.
  void require_entries_of(const State& other) const;
  /// Throws InvalidConfig if there is an entry here that the other does not have.
  void require_no_entries_beyond(const State& other) const;

  /// One flat, versioned, checksummed string of bytes, and back. Throws CorruptPayload for damaged bytes and
  /// InvalidConfig for the format of an earlier version.
  std::vector<std::byte> to_bytes() const;
  static State from_bytes(View<const std::byte> bytes);

  /// A double represents every whole number up to this one exactly.
  static constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 53;

 private:
  struct Entry {
    std::string name;
    char kind;  ///< 'f' floats, 'u' 32-bit words, 'd' one double, 't' text
    std::vector<std::byte> bytes;
  };
  const Entry& entry(const std::string& name) const;
  const Entry& entry(const std::string& name, char kind) const;
  Entry& fresh(const std::string& name, char kind, std::size_t bytes);
  std::vector<Entry> entries_;
};

}  // namespace laconic
