#pragma once

#include <mpi.h>

#include <memory>

#include "laconic/communicator.h"

namespace laconic {

struct MpiOptions {
  /// Longer messages travel in pieces of this size: MPI counts are int.
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30;
  /// Polls MPI between calls, so that a shared counter advances while its host computes. Needs MPI_THREAD_SERIALIZED;
  /// with less, the host drives progress by calling, and `description()` says so.
  bool progress_thread = true;
};

/// A communicator over a duplicate of `parent`; MPI must be initialised and must outlive it. Collective.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm parent, MpiOptions options = {});

}  // namespace laconic
