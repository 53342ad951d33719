#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "laconic/error.h"
#include "laconic/state.h"
#include "methods/settings.h"

namespace laconic {
namespace {

constexpr std::uint32_t kStateMagic = 0x53434C32;      // "2LCS", for format 2
constexpr std::uint32_t kFirstStateMagic = 0x53434C31;  // of format 1, which had no settings

/// Not for the wire, where payloads have their own: 64-bit FNV-1a over a file's bytes.
std::uint64_t digest(const std::byte* bytes, std::size_t count) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * 0x100000001B3;
  return hash;
}

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
  if (count == 0) return;
  const std::size_t at = bytes.size();
  bytes.resize(at + count);
  std::memcpy(bytes.data() + at, from, count);
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  append(bytes, &value, sizeof value);
}

/// Reads what `append` wrote, refusing to read beyond the end.
class Reader {
 public:
  explicit Reader(View<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  const std::byte* take(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      throw CorruptPayload("saved state is cut short: byte " + std::to_string(at_) + " should be followed by " +
                           std::to_string(count) + " more, found " + std::to_string(bytes_.size() - at_) +
                           ". Load an older checkpoint");
    }
    const std::byte* from = bytes_.data() + at_;
    at_ += count;
    return from;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  View<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

/// Bytes of one value of an entry; 0: there is no such kind.
std::size_t value_bytes(char kind) {
  if (kind == 'f' || kind == 'u') return sizeof(float);
  if (kind == 'd') return sizeof(double);
  return kind == 't' ? 1 : 0;
}

bool possible(char kind, std::uint64_t bytes) {
  const std::size_t each = value_bytes(kind);
  return each > 0 && bytes % each == 0 && (kind != 'd' || bytes == each);
}

}  // namespace

State::Entry& State::fresh(const std::string& name, char kind, std::size_t bytes) {
  if (has(name)) throw BrokenInvariant("state has two entries named " + name);
  return entries_.emplace_back(Entry{name, kind, std::vector<std::byte>(bytes)});
}

const State::Entry& State::entry(const std::string& name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.name == name; });
  if (found == entries_.end()) {
    throw InvalidConfig("saved state has no entry " + name + ": it was saved by another method or with other settings");
  }
  return *found;
}

const State::Entry& State::entry(const std::string& name, char kind) const {
  const Entry& found = entry(name);
  if (found.kind != kind)
    throw InvalidConfig("saved state's entry " + name + " is of another kind: it was saved by another method");
  return found;
}

bool State::has(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.name == name; });
}

std::vector<std::string> State::names() const {
  std::vector<std::string> names;
  for (const Entry& each : entries_) names.push_back(each.name);
  return names;
}

std::uint64_t State::size(const std::string& name) const {
  for (const Entry& each : entries_) {
    if (each.name == name) return each.bytes.size() / value_bytes(each.kind);
  }
  return 0;
}

void State::put(const std::string& name, View<const float> values) {
  Entry& made = fresh(name, 'f', values.size_bytes());
  if (!values.empty()) std::memcpy(made.bytes.data(), values.data(), values.size_bytes());
}

void State::put(const std::string& name, View<const std::uint32_t> values) {
  Entry& made = fresh(name, 'u', values.size_bytes());
  if (!values.empty()) std::memcpy(made.bytes.data(), values.data(), values.size_bytes());
}

void State::put(const std::string& name, double value) {
  std::memcpy(fresh(name, 'd', sizeof value).bytes.data(), &value, sizeof value);
}

void State::put(const std::string& name, const std::string& text) {
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), fresh(name, 't', text.size()).bytes.data());
}

namespace {

[[noreturn]] void refuse_size(const std::string& name, std::uint64_t found, std::uint64_t expected) {
  throw InvalidConfig("saved state's entry " + name + " has " + std::to_string(found) + " entries, expected " +
                      std::to_string(expected) + ": it was saved with other tensors or settings");
}

template <class T>
void read_into(const std::string& name, const std::vector<std::byte>& bytes, View<T> values) {
  if (bytes.size() != values.size_bytes()) refuse_size(name, bytes.size() / sizeof(T), values.size());
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

}  // namespace

void State::get(const std::string& name, View<float> values) const { read_into(name, entry(name, 'f').bytes, values); }

void State::get(const std::string& name, View<std::uint32_t> values) const {
  read_into(name, entry(name, 'u').bytes, values);
}

void State::require_entries_of(const State& other) const {
  for (const Entry& expected : other.entries_) {
    const Entry& found = entry(expected.name, expected.kind);
    if (found.bytes.size() != expected.bytes.size()) refuse_size(found.name, size(found.name), other.size(found.name));
  }
}

void State::require_no_entries_beyond(const State& other) const {
  for (const Entry& each : entries_) {
    if (other.has(each.name)) continue;
    throw InvalidConfig("saved state has an entry " + each.name +
                        " too many: it was saved by another method or with other settings");
  }
}

double State::number(const std::string& name) const {
  double value = 0.0;
  read_into(name, entry(name, 'd').bytes, View<double>(&value, 1));
  return value;
}

std::string State::text(const std::string& name) const {
  const std::vector<std::byte>& bytes = entry(name, 't').bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t State::count(const std::string& name, std::uint64_t most) const {
  const double value = number(name);
  if (value >= 0.0 && value <= static_cast<double>(most) && value == std::floor(value)) {
    return static_cast<std::uint64_t>(value);
  }
  throw InvalidConfig("saved state's " + name + " must be in 0.." + std::to_string(most) + " and whole, got " +
                      text_of(value) + ": load a state as it was saved");
}

void State::require_in(const std::string& name, double low, double high) const {
  const auto require = [&](double value) {
    if (value >= low && value <= high) return;
    throw InvalidConfig("saved state's " + name + " must be in [" + text_of(low) + ", " + text_of(high) + "], got " +
                        text_of(value) + ": load a state as it was saved");
  };
  if (entry(name).kind == 'd') return require(number(name));
  std::vector<float> values(size(name));
  get(name, View<float>(values));
  for (const float value : values) require(value);
}

void State::put(const std::string& name, const State& part) {
  for (const Entry& each : part.entries_) {
    fresh(name + "/" + each.name, each.kind, 0).bytes = each.bytes;
  }
}

State State::nested(const std::string& name) const {
  State part;
  for (const Entry& each : entries_) {
    if (each.name.starts_with(name + "/"))
      part.entries_.push_back({each.name.substr(name.size() + 1), each.kind, each.bytes});
  }
  return part;
}

std::vector<std::byte> State::to_bytes() const {
  std::vector<std::byte> bytes;
  append(bytes, kStateMagic);
  append(bytes, static_cast<std::uint32_t>(entries_.size()));
  for (const Entry& each : entries_) {
    append(bytes, static_cast<std::uint32_t>(each.name.size()));
    append(bytes, each.name.data(), each.name.size());
    append(bytes, each.kind);
    append(bytes, static_cast<std::uint64_t>(each.bytes.size()));
    append(bytes, each.bytes.data(), each.bytes.size());
  }
  append(bytes, digest(bytes.data(), bytes.size()));
  return bytes;
}

State State::from_bytes(View<const std::byte> bytes) {
  if (bytes.device() != Device::cpu) {
    throw InvalidConfig(std::string("saved state lies on ") + device_name(bytes.device()) +
                        "; it must be in CPU memory: copy it there");
  }
  if (bytes.size() < sizeof(std::uint64_t))
    throw CorruptPayload("saved state is cut short: it has " + std::to_string(bytes.size()) +
                         " bytes. Load an older checkpoint");
  const std::uint64_t body = bytes.size() - sizeof(std::uint64_t);
  std::uint64_t written = 0;
  std::memcpy(&written, bytes.data() + body, sizeof written);
  if (digest(bytes.data(), body) != written) {
    throw CorruptPayload("saved state is damaged: its checksum does not match. Load an older checkpoint");
  }
  Reader reader(bytes.sub(0, body));
  const auto magic = reader.take<std::uint32_t>();
  if (magic == kFirstStateMagic) {
    throw InvalidConfig(
        "saved state has format 1 of an earlier Laconic, which does not contain the settings with which it was saved; "
        "this version reads format 2: continue with the version that saved it, or start a new run");
  }
  if (magic != kStateMagic) throw CorruptPayload("these bytes are no saved state of Laconic");
  State state;
  std::unordered_set<std::string> names;
  const auto count = reader.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto length = reader.take<std::uint32_t>();
    const std::string name(reinterpret_cast<const char*>(reader.take(length)), length);
    const char kind = reader.take<char>();
    const auto size = reader.take<std::uint64_t>();
    const std::byte* from = reader.take(size);
    if (!names.insert(name).second) throw CorruptPayload("saved state has two entries named " + name);
    if (!possible(kind, size)) {
      throw CorruptPayload("saved state's entry " + name + " has a kind or a size that no entry has");
    }
    state.entries_.push_back({name, kind, {from, from + size}});
  }
  if (!reader.at_end()) throw CorruptPayload("saved state is longer than its entries");
  return state;
}

}  // namespace laconic
