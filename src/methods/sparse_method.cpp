#include "methods/sparse_method.h"

#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "methods/state_memory.h"

namespace laconic {

SparseMethod::SparseMethod(const Settings& settings, Communicator& communicator, Place& place)
    : GradientBase(settings.method(), communicator, place), compression_(settings) {}

void SparseMethod::prepare() {
  compression_.prepare(place(), tensors());
  for (Buffer<float>* buffer : {&residual_, &next_residual_}) {
    buffer->reserve(place(), parameters());
    fill(place(), 0.0F, buffer->view(parameters()));
  }
  compression_.make_sums(pipeline());
}

Exchange& SparseMethod::start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) {
  return compress(chunk,
                  {gradient, residual_.view(parameters()).sub(chunk.offset, chunk.size),
                   next_residual_.view(parameters()).sub(chunk.offset, chunk.size)},
                  status, report);
}

void SparseMethod::finish_chunk(const Chunk& chunk, View<float> aggregate, StatusView, StepReport&) {
  compression_.finish(chunk, next_residual_.view(parameters()).sub(chunk.offset, chunk.size));
  remember(compression_.first_selected(chunk), compression_.selected(chunk), aggregate);
}

void SparseMethod::commit() {
  std::swap(residual_, next_residual_);
  compression_.commit();
  committed();
}

void SparseMethod::save_memory(State& state) const {
  put_memory(state, "residual", place(), residual_.view(parameters()));
  compression_.save(state);
}

void SparseMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  compression_.require_loadable(state);
}

void SparseMethod::load_memory(const State& state) {
  get_memory(state, "residual", place(), residual_.view(parameters()));
  compression_.load(state);
}

}  // namespace laconic
