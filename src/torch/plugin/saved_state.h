#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "laconic/method.h"

// What hosts ask of a state before they go on from it.

namespace laconic::plugin {

/// InvalidConfig with the remedy where the number that was saved under the name is not mine.
void require_number(const State& state, const char* name, double mine, const char* remedy);

/// Which parameters a state is of: methods know their number of entries alone, and a model with the same number in
/// another order would get what another parameter is owed.
void put_tensors(State& state, std::span<const Tensor> tensors);
/// InvalidConfig that names the first parameter which the state has another one for.
void require_tensors(const State& state, std::span<const Tensor> tensors);

/// All ranks go on from the same place, or all throw InvalidConfig: a rank that refuses says why, the others name it and
/// say the same. Empty `refusal`: this rank can go on from its state, and would be at step `place`. Collective.
void agree_on_load(Communicator& communicator, std::uint64_t place, const std::string& refusal);

}  // namespace laconic::plugin
