#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/call.h"
#include "transport/mpi/link.h"

namespace laconic::mpi {

class OperationPool;

/// One collective of this rank: the requests that it was split into. Lives in its pool, which reuses it.
class MpiOperation final : public Operation {
 public:
  MpiOperation(Link& link, OperationPool& pool) : link_(link), pool_(pool) {}

  bool test() override;
  void wait(Milliseconds timeout) override;
  void release() noexcept override;

  // To start it, under the lock:
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

  Link& link_;
  OperationPool& pool_;
  Call call_;                 ///< for messages
  Milliseconds patience_{0};  ///< how long a dropped handle waits for its end
  std::uint64_t sequence_ = 0;
  std::vector<MPI_Request> requests_;
  std::size_t ended_ = 0;     ///< leading requests that have ended
  std::size_t receives_ = 0;  ///< leading requests that MPI can take back
  std::string timeout_;       ///< what was said when a wait was in vain
};

/// Operations of one communicator, reused: nothing is allocated after warm-up. Under the lock.
class OperationPool {
 public:
  explicit OperationPool(Link& link) : link_(link) {}

  MpiOperation& take(const Call& call, Milliseconds patience);
  /// Takes back an operation whose requests have ended; `clean` if it may be used again.
  void give_back(MpiOperation& operation, bool clean);

 private:
  Link& link_;
  std::vector<std::unique_ptr<MpiOperation>> operations_;
  std::vector<MpiOperation*> free_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace laconic::mpi
