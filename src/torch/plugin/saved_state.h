#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "laconic/method.h"

// Checks that hosts make before they continue from a state.

namespace laconic::plugin {

/// Throws an InvalidConfig with the remedy unless the number that was saved under the name equals `mine`.
void require_number(const State& state, const char* name, double mine, const char* remedy);

/// Saves which parameters a state belongs to. Methods know only the number of entries, and a model with the same number
/// in another order would get the residuals of other parameters.
void put_tensors(State& state, std::span<const Tensor> tensors);
/// Throws an InvalidConfig that names the first parameter that differs from the state's.
void require_tensors(const State& state, std::span<const Tensor> tensors);

/// Either all ranks continue from the same step, or all throw InvalidConfig: a rank that rejects its state gives the
/// reason, and the others name that rank and repeat the reason. If `refusal` is empty, this rank can continue from its
/// state, at step `place`. Collective.
void agree_on_load(Communicator& communicator, std::uint64_t place, const std::string& refusal);

}  // namespace laconic::plugin
