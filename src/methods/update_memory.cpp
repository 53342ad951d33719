#include "methods/update_memory.h"

#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {

void UpdateMemory::prepare(Place& place, std::uint64_t parameters, bool keeps_error, bool has_velocity) {
  parameters_ = parameters;
  keeps_error_ = keeps_error;
  has_velocity_ = has_velocity;
  point_.reserve(place, parameters);
  next_error_.reserve(place, parameters);
  error_.reserve(place, error().size());  // an empty one lies on the place's device too
  velocity_.reserve(place, velocity().size());
  for (const View<float>& view : {point(), error(), velocity()}) fill(place, 0.0F, view);
}

void UpdateMemory::write_detached(Place& place, float lambda, View<float> model) const {
  if (lambda == 0.0F) return copy(place, point(), model);
  subtract_scaled(place, point(), lambda, error(), model);
}

}  // namespace laconic
