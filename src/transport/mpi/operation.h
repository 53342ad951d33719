#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "transport/mpi/world.h"
#include "transport/operation_pool.h"

namespace laconic::mpi {

/// One collective of this rank: the requests into which it was split. Its pool owns and reuses it.
class MpiOperation final : public Operation {
 public:
  MpiOperation(World& world, OperationPool<MpiOperation>& pool) : world_(world), pool_(pool) {}

  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

  // Functions that start it. Call them under the lock.
  void reset(const Call& call, std::uint64_t sequence, Milliseconds patience);
  /// A request for MPI to fill; receives come first, then sends.
  MPI_Request* add_receive();
  MPI_Request* add();
  void require(int code) const;
  std::uint64_t sequence() const { return sequence_; }
  bool in_flight() const { return !requests_.empty(); }

 private:
  bool finish();
  bool cancel_receives();
  std::string name() const;

  World& world_;
  OperationPool<MpiOperation>& pool_;
  Call call_;                 ///< for messages
  Milliseconds patience_{0};  ///< how long the destructor of a handle waits for its end
  std::uint64_t sequence_ = 0;
  std::vector<MPI_Request> requests_;
  std::size_t ended_ = 0;     ///< leading requests that have ended
  std::size_t receives_ = 0;  ///< leading requests that MPI can cancel
  std::string timeout_;       ///< the message of a wait that timed out
};

}  // namespace laconic::mpi
