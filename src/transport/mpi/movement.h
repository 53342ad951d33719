#pragma once

#include <mpi.h>

#include <cstdint>

#include "laconic/call.h"
#include "transport/mpi/operation.h"
#include "transport/mpi/world.h"

namespace laconic::mpi {

/// Passes a call to MPI as nonblocking requests. MPI counts are int, so no message is longer than max_message_bytes,
/// and a collective whose parts lie further apart than that is split into fragments and sent point to point. All ranks
/// know the numbers that decide this, so they decide alike.
class Movement {
 public:
  Movement(const World& world, MPI_Comm communicator);

  // Of this rank among those of the communicator, which may be a subgroup of the world.
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Call it under the lock.
  void post(MpiOperation& operation, const Call& call) const;

 private:
  void all_reduce(MpiOperation& operation, const Call& call) const;
  void reduce_scatter(MpiOperation& operation, const Call& call) const;
  /// In place on every rank, after a copy if `mine` lies elsewhere. MPI requires all ranks or none to be in place, and
  /// a rank does not know where the others' parts lie.
  void all_gather(MpiOperation& operation, const Call& call) const;
  /// Always point to point: each rank has its own offsets, and they may fit an int on one rank but not on another.
  /// MPI_Iallgatherv in OpenMPI sends the same messages.
  void all_gather_varying(MpiOperation& operation, const Call& call) const;
  void all_to_all(MpiOperation& operation, const Call& call) const;
  /// Always point to point: only the two ranks of a pair know the size.
  void all_to_all_varying(MpiOperation& operation, const Call& call) const;
  void broadcast(MpiOperation& operation, const Call& call) const;
  void barrier(MpiOperation& operation) const;

  /// sent(r) describes what goes to rank r, and received(r) what comes from it, each as an address and a number of
  /// bytes. The rank's own part is copied at once.
  template <class Sent, class Received>
  void pairwise(MpiOperation& operation, Sent&& sent, Received&& received) const;

  bool fits(std::uint64_t bytes_per_rank) const;

  MPI_Comm communicator_;
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t limit_;     ///< most bytes of a message
  std::size_t entries_;     ///< floats that fit into that
  std::uint64_t tags_ = 0;  ///< tags that MPI offers
};

}  // namespace laconic::mpi
