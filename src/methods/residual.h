#pragma once

#include <utility>

#include "base/buffer.h"
#include "laconic/place.h"
#include "laconic/state.h"
#include "methods/chunked_step.h"

namespace laconic {

/// What a method has not sent yet. It is in memory twice, so that a dropped step leaves it as it was.
class Residual {
 public:
  /// It is zero.
  void prepare(Place& place, std::uint64_t parameters);

  View<float> view() const { return residual_.view(parameters_); }
  View<float> next() const { return next_.view(parameters_); }
  View<float> of(const Chunk& chunk) const { return view().sub(chunk.offset, chunk.size); }
  /// Where a step leaves what it has not sent of a chunk.
  View<float> next_of(const Chunk& chunk) const { return next().sub(chunk.offset, chunk.size); }
  /// The step counts.
  void commit() { std::swap(residual_, next_); }

  void save(Place& place, State& state) const;
  void load(Place& place, const State& state);

 private:
  std::uint64_t parameters_ = 0;
  Buffer<float> residual_;
  Buffer<float> next_;
};

}  // namespace laconic
