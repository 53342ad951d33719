#pragma once

#include <span>

#include "laconic/call.h"

namespace laconic::threads {

/// Moves what lands at rank `destination` in a collective that all ranks have called: reads the ranks' views and writes
/// that rank's (of an all_reduce: one of as many index ranges as there are ranks, everywhere). Sums run in rank order.
/// Different destinations touch different memory, so any threads may do them at once.
void move_to(std::span<const Call> calls, std::size_t destination);

}  // namespace laconic::threads
