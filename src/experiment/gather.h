#pragma once

#include <vector>

#include "laconic/communicator.h"

// Messages in which ranks exchange figures of a run. They do not belong to the method and are not counted as traffic.

namespace laconic {

/// The values of every rank, by rank. All ranks pass the same number of values. Collective.
template <class Value>
std::vector<Value> gather(Communicator& group, View<const Value> mine) {
  std::vector<Value> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(as_bytes(mine), as_writable_bytes(View<Value>(all))).wait();
  return all;
}

template <class Number>
std::vector<Number> gather_number(Communicator& group, Number mine) {
  return gather(group, View<const Number>(&mine, 1));
}

}  // namespace laconic
