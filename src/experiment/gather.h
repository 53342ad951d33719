#pragma once

#include <vector>

#include "laconic/communicator.h"

// What ranks tell each other about a run. These messages are not the method's and are not counted as traffic.

namespace laconic {

/// Every rank's values, by rank; all ranks give as many. Collective.
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
