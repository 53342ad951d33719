#include "methods/state_memory.h"

#include <vector>

#include "base/transfer.h"

namespace laconic {
namespace {

template <class T>
void put(State& state, const std::string& name, Place& place, View<const T> values) {
  if (place.queue() == nullptr) return state.put(name, values);
  std::vector<T> here(values.size());
  copy_to_cpu(place, values, here.data());
  state.put(name, View<const T>(here));
}

template <class T>
void get(const State& state, const std::string& name, Place& place, View<T> values) {
  if (place.queue() == nullptr) return state.get(name, values);
  std::vector<T> here(values.size());
  state.get(name, View<T>(here));
  copy_from_cpu(place, here.data(), values);
}

}  // namespace

void put_memory(State& state, const std::string& name, Place& place, View<const float> values) {
  put(state, name, place, values);
}

void put_memory(State& state, const std::string& name, Place& place, View<const std::uint32_t> values) {
  put(state, name, place, values);
}

void get_memory(const State& state, const std::string& name, Place& place, View<float> values) {
  get(state, name, place, values);
}

void get_memory(const State& state, const std::string& name, Place& place, View<std::uint32_t> values) {
  get(state, name, place, values);
}

}  // namespace laconic
