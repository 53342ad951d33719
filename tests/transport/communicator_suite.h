#pragma once

#include "laconic/communicator.h"

// What every transport must do, as checks that each rank of a run calls in the same order. They use GoogleTest's
// EXPECT_ and throw what the communicator throws.

namespace laconic::test {

// Sizes 0, 1, small, prime and a million, up to `largest`.
void check_all_reduce(Communicator& communicator, std::size_t largest);
void check_reduce_scatter(Communicator& communicator, std::size_t largest);
void check_all_gather(Communicator& communicator, std::size_t largest);
void check_all_gather_varying(Communicator& communicator);
void check_all_to_all(Communicator& communicator, std::size_t largest);
void check_all_to_all_varying(Communicator& communicator);
void check_broadcast(Communicator& communicator, std::size_t largest);
void check_barrier(Communicator& communicator);

/// Operations of all kinds in flight at once, waited for in another order and polled.
void check_several_in_flight(Communicator& communicator);
/// Hundreds of small operations one after the other.
void check_many_in_a_row(Communicator& communicator);
/// Calls on a communicator and its duplicates, which the ranks interleave differently.
void check_duplicates(Communicator& communicator);
/// Parts of the ranks, which call different numbers of times, beside the whole.
void check_split(Communicator& communicator);
/// Handles that are dropped once every rank has started the call still complete it.
void check_dropped_handles(Communicator& communicator);
/// All ranks draw from two counters; no ticket is drawn twice and none is left out.
void check_counter(Communicator& communicator);
void check_agreement(Communicator& communicator);
/// Wrong calls that a rank can see by itself.
void check_bad_views(Communicator& communicator);
/// No operator new once every kind of call has been made.
void check_no_allocation(Communicator& communicator);

void check_everything(Communicator& communicator, std::size_t largest = 1'000'000);

}  // namespace laconic::test
