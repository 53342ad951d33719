#pragma once

#include <cstdint>
#include <string>

#include "laconic/method.h"

// What hosts ask of a state before they go on from it.

namespace laconic::plugin {

/// InvalidConfig with the remedy where the number that was saved under the name is not mine.
void require_number(const State& state, const char* name, double mine, const char* remedy);

/// All ranks go on from the same place, or all throw InvalidConfig: who refuses why, the others that one did. Empty
/// `refusal`: this rank has loaded its state, and is at `place` now. Collective.
void agree_on_load(Communicator& communicator, std::uint64_t place, const std::string& refusal);

}  // namespace laconic::plugin
