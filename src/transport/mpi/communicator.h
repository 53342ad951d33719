#pragma once

#include <memory>

#include "transport/mpi/channel.h"
#include "transport/mpi/movement.h"

namespace laconic::mpi {

class MpiCommunicator final : public Communicator {
 public:
  /// `first`: whether it was made from the program's communicator and is not a duplicate.
  MpiCommunicator(std::shared_ptr<Channel> channel, bool first);
  ~MpiCommunicator() override;

  int rank() const override { return movement_.rank(); }
  int size() const override { return movement_.size(); }
  Handle start(const Call& call) override;
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override { world_.fail(reason); }
  std::string description() const override;

 private:
  std::unique_ptr<Communicator> beside(MPI_Comm own);

  std::shared_ptr<Channel> channel_;
  World& world_;
  Movement movement_;
  bool first_;
  int exceptions_;  ///< in flight at construction; if there are more at destruction, an exception caused it
};

}  // namespace laconic::mpi
