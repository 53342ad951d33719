#pragma once

#include <mpi.h>

#include <cstdint>

#include "laconic/call.h"
#include "transport/mpi/operation.h"
#include "transport/mpi/world.h"

namespace laconic::mpi {

/// Gives a call to MPI as nonblocking requests. MPI counts are int, so no message is longer than max_message_bytes, and
/// a collective whose parts lie further apart than that goes by point-to-point messages in fragments. What decides is
/// known to all ranks, so they decide alike.
class Movement {
 public:
  Movement(const World& world, MPI_Comm communicator);

  /// Under the lock.
  void post(MpiOperation& operation, const Call& call) const;

 private:
  void all_reduce(MpiOperation& operation, const Call& call) const;
  void reduce_scatter(MpiOperation& operation, const Call& call) const;
  /// In place on every rank, after a copy where `mine` lies elsewhere: MPI wants all ranks in place or none, and only
  /// a rank itself knows where its part lies.
  void all_gather(MpiOperation& operation, const Call& call) const;
  /// Always point to point: offsets are a rank's own and need not fit an int where another rank's do. MPI_Iallgatherv
  /// in OpenMPI sends the same messages.
  void all_gather_varying(MpiOperation& operation, const Call& call) const;
  void all_to_all(MpiOperation& operation, const Call& call) const;
  /// Always point to point: only the pair knows the size.
  void all_to_all_varying(MpiOperation& operation, const Call& call) const;
  void broadcast(MpiOperation& operation, const Call& call) const;
  void barrier(MpiOperation& operation) const;

  /// sent(r) is what goes to rank r and received(r) what comes from it: pairs of an address and a number of bytes. The
  /// rank's own part is copied at once.
  template <class Sent, class Received>
  void pairwise(MpiOperation& operation, Sent&& sent, Received&& received) const;

  bool fits(std::uint64_t bytes_per_rank) const;

  const World& world_;
  MPI_Comm communicator_;
  std::uint64_t limit_;     ///< bytes of a message
  std::size_t entries_;     ///< and the floats that fit into it
  std::uint64_t tags_ = 0;  ///< tags that MPI offers
};

}  // namespace laconic::mpi
