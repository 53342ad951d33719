#pragma once

#include <span>
#include <string>

#include "laconic/communicator.h"

namespace laconic {

/// Something that must be the same on all ranks, as text: a parameter, a version, a tensor's name and size.
struct AgreedField {
  std::string name;
  std::string value;
};

/// Collective. Returns if every rank passes the same fields in the same order. Otherwise every rank throws the same
/// InvalidConfig, which names the lowest rank that differs from rank 0, the first field that differs and both values.
/// Costs an all-gather of 16 bytes; only ranks that differ send their fields, one rank at a time. Throws a
/// TransportError that names the sender for bytes that are not fields or are longer than 64 MiB.
void require_agreement(Communicator& communicator, std::span<const AgreedField> fields);

/// Communicator::duplicates_overlap, on which the order of calls depends.
AgreedField overlap_field(const Communicator& communicator);

}  // namespace laconic
