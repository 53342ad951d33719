#include "transport/agreement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "laconic/error.h"

namespace laconic {
namespace {

/// What ranks compare first: the length of the fields as text and a hash of it (FNV-1a).
struct Digest {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  bool operator==(const Digest&) const = default;
};
static_assert(sizeof(Digest) == 16);

void append(std::string& text, const std::string& part) {
  const std::uint64_t bytes = part.size();
  text.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(part);
}

std::string take(const std::string& text, std::size_t& at) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text.data() + at, sizeof(bytes));
  at += sizeof(bytes) + bytes;
  return text.substr(at - bytes, bytes);
}

/// Each name and value behind its length, so that no two lists of fields make the same text.
std::string text_of(std::span<const AgreedField> fields) {
  std::string text;
  for (const AgreedField& field : fields) {
    append(text, field.name);
    append(text, field.value);
  }
  return text;
}

std::vector<AgreedField> fields_of(const std::string& text) {
  std::vector<AgreedField> fields;
  for (std::size_t at = 0; at < text.size();) {
    AgreedField field;
    field.name = take(text, at);
    field.value = take(text, at);
    fields.push_back(std::move(field));
  }
  return fields;
}

Digest digest_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char character : text) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  return {text.size(), hash};
}

std::vector<AgreedField> fields_from(Communicator& communicator, int root, const std::string& own,
                                     std::uint64_t bytes) {
  std::string text = communicator.rank() == root ? own : std::string(bytes, '\0');
  communicator.broadcast({reinterpret_cast<std::byte*>(text.data()), text.size()}, root).wait();
  return fields_of(text);
}

bool has(const std::vector<AgreedField>& fields, const std::string& name) {
  return std::ranges::any_of(fields, [&](const AgreedField& field) { return field.name == name; });
}

std::string shown(const AgreedField& field) { return field.name + " = " + field.value; }

std::string difference(const std::vector<AgreedField>& expected, const std::vector<AgreedField>& found, int rank) {
  const std::string who = "rank " + std::to_string(rank);
  const std::size_t common = std::min(expected.size(), found.size());
  for (std::size_t i = 0; i < common; ++i) {
    const AgreedField& wanted = expected[i];
    const AgreedField& given = found[i];
    if (wanted.name == given.name && wanted.value == given.value) continue;
    if (wanted.name == given.name) return who + " has " + shown(given) + ", rank 0 has " + shown(wanted);
    if (!has(expected, given.name)) return who + " has " + shown(given) + ", rank 0 has no " + given.name;
    if (!has(found, wanted.name)) return who + " has no " + wanted.name + ", rank 0 has " + shown(wanted);
    return who + " has " + shown(given) + " as number " + std::to_string(i + 1) + ", rank 0 has " + shown(wanted);
  }
  const std::string counts =
      " (" + std::to_string(found.size()) + " entries against " + std::to_string(expected.size()) + ")";
  if (found.size() > common)
    return who + " has " + shown(found[common]) + ", rank 0 has no " + found[common].name + counts;
  return who + " has no " + expected[common].name + ", rank 0 has " + shown(expected[common]) + counts;
}

}  // namespace

void require_agreement(Communicator& communicator, std::span<const AgreedField> fields) {
  const std::string own = text_of(fields);
  std::vector<Digest> mine{digest_of(own)};
  std::vector<Digest> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<Digest>(mine)), as_writable_bytes(View<Digest>(all))).wait();
  const auto differing = std::ranges::find_if(all, [&](const Digest& digest) { return digest != all.front(); });
  if (differing == all.end()) return;
  const int rank = static_cast<int>(differing - all.begin());
  const auto expected = fields_from(communicator, 0, own, all.front().bytes);
  const auto found = fields_from(communicator, rank, own, differing->bytes);
  throw InvalidConfig(difference(expected, found, rank) + ": start all ranks with the same settings");
}

}  // namespace laconic
