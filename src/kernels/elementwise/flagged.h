#pragma once

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "laconic/place.h"
#include "laconic/status.h"

namespace laconic {

/// Throws InvalidConfig unless there is a status on the place's device.
void require_status(Place& place, StatusView status);

/// parallel_ranges for loops that read values anyway. `body` returns whether its range had a NaN or an Inf; if any
/// range had one, status.nonfinite is set.
void parallel_flagged(Place& place, std::size_t size, StatusView status, FunctionRef<bool(Range)> body);

}  // namespace laconic
