#pragma once

#include "support/places.h"

namespace laconic::test {

class Worker;

void check_dense(Worker& worker);
void check_dense_engine(Worker& worker);
void check_dense_several_in_flight(Worker& worker);
void check_dense_plain_sum(Worker& worker);
void check_host_ranges(Worker& worker);
void check_broadcast(Worker& worker);
void check_block(Worker& worker);
void check_sparse_routes(Worker& worker);
void check_sparse_leader(Worker& worker);
void check_sparse_16bit(Worker& worker);
void check_sparse_choice(Worker& worker);
void check_sparse_borders(Worker& worker);
void check_sparse_keep(Worker& worker);
void check_sparse_bytes(Worker& worker);
void check_vote(Worker& worker);
void check_vote_bytes(Worker& worker);
void check_abstaining_vote(Worker& worker);
void check_gathered_numbers(Worker& worker);
void check_overflow(Worker& worker);
void check_sparse_keep_16bit(Worker& worker);
void check_sparse_coded(Worker& worker);
void check_sparse_coded_return(Worker& worker);
void check_quantized_routes(Worker& worker);
void check_quantized_scopes(Worker& worker);
void check_quantized_requantized(Worker& worker);
void check_nonfinite(Worker& worker);
void check_wrong_sizes(Worker& worker);

// These end with a communicator that has failed.
void check_block_refuses_other_blocks(Worker& worker);
void check_damage_is_refused(int ranks, const PlaceMaker& make_place);
void check_dropping_in_flight(int ranks, const PlaceMaker& make_place);
void check_failure_stays(int ranks, const PlaceMaker& make_place);

}  // namespace laconic::test
