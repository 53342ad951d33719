#pragma once

#include <memory>

#include "laconic/mpi.h"
#include "transport/mpi/counters.h"
#include "transport/mpi/link.h"
#include "transport/mpi/operation.h"
#include "transport/mpi/poster.h"
#include "transport/mpi/progress.h"

namespace laconic::mpi {

/// What a communicator and its duplicates share.
struct Engine {
  Engine(MPI_Comm parent, Milliseconds timeout) : link(parent, timeout) {}
  Link link;
  std::unique_ptr<Progress> progress;  ///< ends with the first communicator
  int thread_level = 0;
  MpiOptions options;
};

/// What one communicator has of its own, and MPI may hold addresses of.
struct Channel {
  Channel(std::shared_ptr<Engine> shared, MPI_Comm own)
      : engine(std::move(shared)), communicator(own), pool(engine->link), counters(engine->link, own) {}
  std::shared_ptr<Engine> engine;
  MPI_Comm communicator;
  OperationPool pool;
  CounterHost counters;
};

class MpiCommunicator final : public Communicator {
 public:
  /// `first`: the one that was made from the program's communicator, not a duplicate of it.
  MpiCommunicator(std::shared_ptr<Engine> engine, MPI_Comm own, bool first);
  ~MpiCommunicator() override;

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }

  Handle all_reduce(View<float> values, Reduction reduction) override;
  Handle reduce_scatter(View<const float> values, View<float> chunk) override;
  Handle all_gather(View<const std::byte> mine, View<std::byte> all) override;
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const Part> parts) override;
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive) override;
  Handle all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts, View<std::byte> receive,
                            std::span<const Part> receive_parts) override;
  Handle broadcast(View<std::byte> bytes, int root) override;
  Handle barrier() override;
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<SharedCounter> make_counter() override;
  void fail(std::string_view reason) noexcept override;
  std::string description() const override;

 private:
  void give_back();
  /// Takes an operation and lets post(operation) give its requests to MPI, under the lock.
  template <class Post>
  Handle start(const Call& call, Post&& post);

  std::shared_ptr<Channel> channel_;
  Engine& engine_;
  Link& link_;
  Poster poster_;
  bool first_;
  int exceptions_;  ///< in flight when it was made: more at its end mean that one ends it
};

}  // namespace laconic::mpi
