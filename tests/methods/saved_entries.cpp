#include "methods/saved_entries.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace laconic::test {
namespace {

template <class T>
T take(const std::vector<std::byte>& bytes, std::size_t& at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

}  // namespace

std::vector<std::uint32_t> SavedEntry::words() const {
  std::vector<std::uint32_t> words(values.size() / sizeof(std::uint32_t));
  if (!words.empty()) std::memcpy(words.data(), values.data(), words.size() * sizeof(std::uint32_t));
  return words;
}

void SavedEntry::set_words(const std::vector<std::uint32_t>& words) {
  values.resize(words.size() * sizeof(std::uint32_t));
  if (!words.empty()) std::memcpy(values.data(), words.data(), values.size());
}

void SavedEntry::set_number(double number) {
  values.resize(sizeof number);
  std::memcpy(values.data(), &number, sizeof number);
}

void SavedEntry::set_float(std::size_t index, float value) {
  std::memcpy(values.data() + index * sizeof value, &value, sizeof value);
}

std::vector<SavedEntry> entries_of(const State& state) {
  const std::vector<std::byte> bytes = state.to_bytes();
  std::size_t at = 4;
  std::vector<SavedEntry> entries(take<std::uint32_t>(bytes, at));
  for (SavedEntry& entry : entries) {
    const auto length = take<std::uint32_t>(bytes, at);
    entry.name.assign(reinterpret_cast<const char*>(bytes.data() + at), length);
    at += length;
    entry.kind = take<char>(bytes, at);
    const auto size = take<std::uint64_t>(bytes, at);
    entry.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return entries;
}

std::vector<std::byte> bytes_of(const std::vector<SavedEntry>& entries) {
  std::vector<std::byte> bytes = State().to_bytes();
  bytes.resize(4);  // its magic number, which says the format
  append(bytes, static_cast<std::uint32_t>(entries.size()));
  for (const SavedEntry& entry : entries) {
    append(bytes, static_cast<std::uint32_t>(entry.name.size()));
    for (const char letter : entry.name) append(bytes, letter);
    append(bytes, entry.kind);
    append(bytes, static_cast<std::uint64_t>(entry.values.size()));
    bytes.insert(bytes.end(), entry.values.begin(), entry.values.end());
  }
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const std::byte each : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 0x100000001B3;
  append(bytes, hash);
  return bytes;
}

State state_of(const std::vector<SavedEntry>& entries) { return State::from_bytes(bytes_of(entries)); }

State with_entry(const State& state, const std::string& name, const std::function<void(SavedEntry&)>& change) {
  std::vector<SavedEntry> entries = entries_of(state);
  const std::string whole_name = state.has(name) ? name : "inner/" + name;
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const SavedEntry& entry) { return entry.name == whole_name; });
  if (found == entries.end()) throw std::logic_error("no entry " + name);
  change(*found);
  return state_of(entries);
}

}  // namespace laconic::test
