#include "methods/sparse_method.h"

namespace laconic {

SparseMethod::SparseMethod(const Settings& settings, Selection selection, Communicator& communicator, Place& place)
    : GradientBase(settings.method(), communicator, place), compression_(settings, selection) {}

void SparseMethod::prepare() {
  compression_.prepare(place(), tensors());
  residual_.prepare(place(), parameters());
  compression_.make_sums(pipeline());
}

Exchange& SparseMethod::start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) {
  return compress(chunk, {gradient, residual_.of(chunk), residual_.next_of(chunk)}, status, report);
}

void SparseMethod::finish_chunk(const Chunk& chunk, GradientView, StatusView, StepReport&) {
  compression_.finish(chunk, residual_.next_of(chunk));
  remember(compression_.selection(chunk), compression_.selected(chunk));
}

void SparseMethod::commit() {
  residual_.commit();
  compression_.commit();
  committed();
}

void SparseMethod::save_memory(State& state) const {
  residual_.save(place(), state);
  compression_.save(state);
}

void SparseMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  compression_.require_loadable(state);
}

void SparseMethod::load_memory(const State& state) {
  residual_.load(place(), state);
  compression_.load(state);
}

}  // namespace laconic
