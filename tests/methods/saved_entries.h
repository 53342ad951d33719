#pragma once

#include <functional>
#include <string>
#include <vector>

#include "laconic/method.h"

namespace laconic::test {

/// An entry of a saved state as it lies in the bytes; the format is that of src/methods/state.cpp.
struct SavedEntry {
  std::string name;
  char kind = 'f';
  std::vector<std::byte> values;

  std::vector<std::uint32_t> words() const;
  void set_words(const std::vector<std::uint32_t>& words);
  void set_number(double number);
  void set_float(std::size_t index, float value);
};

std::vector<SavedEntry> entries_of(const State& state);

/// The bytes that such a state would be saved as, with a checksum that fits.
std::vector<std::byte> bytes_of(const std::vector<SavedEntry>& entries);
State state_of(const std::vector<SavedEntry>& entries);

/// The state with an entry changed: the one of that name, or of a method's inner one.
State with_entry(const State& state, const std::string& name, const std::function<void(SavedEntry&)>& change);

}  // namespace laconic::test
