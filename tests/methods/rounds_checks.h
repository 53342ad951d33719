#pragma once

#include <string>

#include "laconic/communicator.h"

namespace laconic::test {

// Properties of asynchronous runs, checked by every rank of a communicator whose workers are of different speeds: used
// over threads and over MPI.

/// All workers end; step tickets used are exactly workers·steps, rounds ceil(steps/period); the centre is the same
/// everywhere.
void check_async_run(Communicator& communicator, const std::string& method);

/// Cut at a round and loaded into new methods, and gone on with after saving: no step is lost or counted twice.
void check_async_resume(Communicator& communicator, const std::string& method);

/// A lockstep run, cut and resumed, ends with the same bits.
void check_lockstep_resume(Communicator& communicator, const std::string& method);

}  // namespace laconic::test
