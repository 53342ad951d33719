#pragma once

#include <string>

#include "laconic/place.h"
#include "laconic/state.h"

namespace laconic {

// Memory of methods in a saved state: a state lies on the host, a method's memory where its place works.

void put_memory(State& state, const std::string& name, Place& place, View<const float> values);
void put_memory(State& state, const std::string& name, Place& place, View<const std::uint32_t> values);

/// Throw InvalidConfig where State::get does; nothing is written then.
void get_memory(const State& state, const std::string& name, Place& place, View<float> values);
void get_memory(const State& state, const std::string& name, Place& place, View<std::uint32_t> values);

}  // namespace laconic
