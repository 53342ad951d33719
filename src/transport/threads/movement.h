#pragma once

#include <span>

#include "transport/call.h"

namespace laconic::threads {

/// Does destination rank `destination`'s share of a collective that all ranks have called: reads the ranks' views and
/// writes what lands at that rank (of an all_reduce: its share of the index range, everywhere). Sums run in rank order.
/// The shares of different destinations touch different memory, so any threads may do them at once.
void move_to(std::span<const Call> calls, std::size_t destination);

}  // namespace laconic::threads
