#include <algorithm>
#include <cstring>

#include "laconic/error.h"
#include "transport/agreement_text.h"

namespace laconic {
namespace {

void append(std::string& text, const std::string& part) {
  const std::uint64_t bytes = part.size();
  text.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(part);
}

[[noreturn]] void refuse(int rank, const std::string& fault) {
  throw TransportError("what rank " + std::to_string(rank) + " sent to compare its settings " + fault +
                       ": run the same build of the program on all ranks");
}

/// The part behind the length at `at`, which it moves to the part's end.
std::string take(const std::string& text, std::size_t& at, int rank) {
  std::uint64_t bytes = 0;
  if (text.size() - at < sizeof(bytes)) {
    refuse(rank, "ends within a length, at byte " + std::to_string(at) + " of " + std::to_string(text.size()));
  }
  std::memcpy(&bytes, text.data() + at, sizeof(bytes));
  at += sizeof(bytes);
  if (bytes > text.size() - at) {
    refuse(rank, "announces " + std::to_string(bytes) + " bytes at byte " + std::to_string(at) + " of " +
                     std::to_string(text.size()));
  }
  at += bytes;
  return text.substr(at - bytes, bytes);
}

/// Digests are the same on all ranks, so all refuse a length alike, before anybody sends.
void require_length(int rank, const AgreementDigest& digest) {
  if (digest.bytes <= kLargestAgreementText) return;
  refuse(rank, "is " + std::to_string(digest.bytes) + " bytes, more than " + std::to_string(kLargestAgreementText));
}

/// A text that is not the announced one is refused, so that two texts which come through differ in a field.
std::vector<AgreedField> fields_from(Communicator& communicator, int root, const std::string& own,
                                     const AgreementDigest& announced) {
  std::string text = communicator.rank() == root ? own : std::string(announced.bytes, '\0');
  communicator.broadcast({reinterpret_cast<std::byte*>(text.data()), text.size()}, root).wait();
  if (agreement_digest(text) != announced) refuse(root, "is not what it announced");
  return agreement_fields(text, root);
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

AgreementDigest agreement_digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char character : text) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  return {text.size(), hash};
}

std::string agreement_text(std::span<const AgreedField> fields) {
  std::string text;
  for (const AgreedField& field : fields) {
    append(text, field.name);
    append(text, field.value);
  }
  return text;
}

std::vector<AgreedField> agreement_fields(const std::string& text, int rank) {
  std::vector<AgreedField> fields;
  for (std::size_t at = 0; at < text.size();) {
    AgreedField field;
    field.name = take(text, at, rank);
    field.value = take(text, at, rank);
    fields.push_back(std::move(field));
  }
  return fields;
}

void require_agreement(Communicator& communicator, std::span<const AgreedField> fields) {
  const std::string own = agreement_text(fields);
  std::vector<AgreementDigest> mine{agreement_digest(own)};
  std::vector<AgreementDigest> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<AgreementDigest>(mine)), as_writable_bytes(View<AgreementDigest>(all))).wait();
  const auto differing =
      std::ranges::find_if(all, [&](const AgreementDigest& digest) { return digest != all.front(); });
  if (differing == all.end()) return;
  const int rank = static_cast<int>(differing - all.begin());
  require_length(0, all.front());
  require_length(rank, *differing);
  const auto expected = fields_from(communicator, 0, own, all.front());
  const auto found = fields_from(communicator, rank, own, *differing);
  throw InvalidConfig(difference(expected, found, rank) + ": start all ranks with the same settings");
}

AgreedField overlap_field(const Communicator& communicator) {
  return {"the engine's groups", communicator.duplicates_overlap() ? "may overlap" : "need one order"};
}

}  // namespace laconic
