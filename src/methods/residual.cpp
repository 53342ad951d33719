#include "methods/residual.h"

#include "kernels/elementwise/elementwise.h"
#include "methods/state_memory.h"

namespace laconic {

void Residual::prepare(Place& place, std::uint64_t parameters) {
  parameters_ = parameters;
  for (Buffer<float>* buffer : {&residual_, &next_}) {
    buffer->reserve(place, parameters);
    fill(place, 0.0F, buffer->view(parameters));
  }
}

void Residual::save(Place& place, State& state) const { put_memory(state, "residual", place, view()); }

void Residual::load(Place& place, const State& state) { get_memory(state, "residual", place, view()); }

}  // namespace laconic
