#pragma once

#include "laconic/communicator.h"

namespace laconic::test {

void check_dense(Communicator& communicator);
void check_dense_engine(Communicator& communicator);
void check_dense_several_in_flight(Communicator& communicator);
void check_dense_plain_sum(Communicator& communicator);
void check_host_ranges(Communicator& communicator);
void check_broadcast(Communicator& communicator);
void check_block(Communicator& communicator);
void check_sparse_routes(Communicator& communicator);
void check_sparse_leader(Communicator& communicator);
void check_sparse_16bit(Communicator& communicator);
void check_sparse_choice(Communicator& communicator);
void check_sparse_borders(Communicator& communicator);
void check_sparse_keep(Communicator& communicator);
void check_sparse_bytes(Communicator& communicator);
void check_vote(Communicator& communicator);
void check_vote_bytes(Communicator& communicator);
void check_abstaining_vote(Communicator& communicator);
void check_gathered_numbers(Communicator& communicator);
void check_overflow(Communicator& communicator);
void check_sparse_keep_16bit(Communicator& communicator);
void check_sparse_coded(Communicator& communicator);
void check_sparse_coded_return(Communicator& communicator);
void check_quantized_routes(Communicator& communicator);
void check_quantized_scopes(Communicator& communicator);
void check_quantized_requantized(Communicator& communicator);
void check_nonfinite(Communicator& communicator);
void check_wrong_sizes(Communicator& communicator);

// These end with a communicator that has failed.
void check_block_refuses_other_blocks(Communicator& communicator);
void check_damage_is_refused(int ranks);
void check_dropping_in_flight(int ranks);
void check_failure_stays(int ranks);

}  // namespace laconic::test
