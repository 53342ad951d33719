#include "methods/momentum_undo.h"

#include "kernels/elementwise/elementwise.h"

namespace laconic {

void MomentumUndo::take_back(Place& place, View<float> momentum) {
  for (const auto& [offset, before] : noted_) copy(place, before, momentum.sub(offset, before.size()));
  noted_.clear();
}

}  // namespace laconic
