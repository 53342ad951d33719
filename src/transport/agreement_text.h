#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/agreement.h"

namespace laconic {

/// The longest text of fields that a rank takes from another: a length comes off the wire, and what it says is
/// allocated. A million tensors of sixty bytes a name fit.
constexpr std::uint64_t kLargestAgreementText = std::uint64_t{64} << 20;

/// What ranks compare first: the length of the fields as text and a hash of it (FNV-1a).
struct AgreementDigest {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  bool operator==(const AgreementDigest&) const = default;
};
static_assert(sizeof(AgreementDigest) == 16);

AgreementDigest agreement_digest(const std::string& text);

/// Each name and value behind its length (64 bits), so that no two lists of fields make the same text.
std::string agreement_text(std::span<const AgreedField> fields);

/// The fields of a text that came from `rank`. TransportError, naming the rank, if a length is cut short or reaches
/// beyond the end, or a name has no value. Reads nothing outside the text and allocates no more than it.
std::vector<AgreedField> agreement_fields(const std::string& text, int rank);

}  // namespace laconic
