#pragma once

#include <cstdint>

#include "base/philox.h"
#include "laconic/view.h"

namespace laconic::nets {

/// Uniform in (−bound, bound): the middles of 2^32 equal parts, entry i from draw i.
void fill_uniform(const RandomStream& stream, double bound, View<float> out);

/// Normal(0, 1). At most 2^32 entries.
void fill_normal(const RandomStream& stream, View<float> out);

}  // namespace laconic::nets
