#pragma once

#include <string>

#include "laconic/place.h"
#include "laconic/state.h"

namespace laconic {

// Copies memory of methods to and from a saved state. A state lies in CPU memory, a method's memory on the device of
// its place.

void put_memory(State& state, const std::string& name, Place& place, View<const float> values);
void put_memory(State& state, const std::string& name, Place& place, View<const std::uint32_t> values);

/// Throw InvalidConfig in the same cases as State::get, and then write nothing.
void get_memory(const State& state, const std::string& name, Place& place, View<float> values);
void get_memory(const State& state, const std::string& name, Place& place, View<std::uint32_t> values);

}  // namespace laconic
