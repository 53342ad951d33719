#pragma once

#include <span>
#include <string>

#include "laconic/communicator.h"

namespace laconic {

/// Something that all ranks must have alike, as text: a parameter, a version, a tensor's name and size.
struct AgreedField {
  std::string name;
  std::string value;
};

/// Collective. Returns if every rank came with the same fields in the same order; otherwise every rank throws the same
/// InvalidConfig, which names the lowest rank that differs from rank 0, the first field that differs and both values.
/// Costs an all-gather of 16 bytes; only ranks that differ send their fields, one of them at a time. What cannot be
/// fields, or is longer than 64 MiB, is a TransportError that names the rank it came from.
void require_agreement(Communicator& communicator, std::span<const AgreedField> fields);

}  // namespace laconic
