#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/agreement.h"

namespace laconic {

/// The longest text of fields that a rank accepts from another. The limit exists because a received length decides how
/// much is allocated. A million tensors with names of sixty bytes fit.
constexpr std::uint64_t kLargestAgreementText = std::uint64_t{64} << 20;

/// What ranks compare first: the length of the fields' text and its hash (FNV-1a).
struct AgreementDigest {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  bool operator==(const AgreementDigest&) const = default;
};
static_assert(sizeof(AgreementDigest) == 16);

AgreementDigest agreement_digest(const std::string& text);

/// Each name and each value follows its length (64 bits), so that different lists of fields have different texts.
std::string agreement_text(std::span<const AgreedField> fields);

/// The fields of a text that `rank` sent. Throws a TransportError that names the rank if a length is cut short or
/// reaches beyond the end, or if a name has no value. Reads nothing outside the text and allocates no more than its
/// size.
std::vector<AgreedField> agreement_fields(const std::string& text, int rank);

}  // namespace laconic
