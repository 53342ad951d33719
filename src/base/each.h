#pragma once

#include "base/function_ref.h"

namespace laconic {

/// Items that a caller can go through without a list in memory: calls its argument for each, in order.
template <class T>
using Each = FunctionRef<void(FunctionRef<void(const T&)>)>;

/// One item, for a function that takes several.
template <class T>
auto just(const T& item) {
  return [&item](FunctionRef<void(const T&)> body) { body(item); };
}

}  // namespace laconic
