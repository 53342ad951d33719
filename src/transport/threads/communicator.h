#pragma once

#include <memory>

#include "transport/threads/world.h"

namespace laconic::threads {

/// One rank of a world.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<World> world, Lane& lane, std::size_t rank);
  ~ThreadCommunicator() override;

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(world_->ranks()); }

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
  Handle start(const Call& call);

  std::shared_ptr<World> world_;
  Lane& lane_;
  std::size_t rank_;
  std::uint64_t next_sequence_ = 0;
  std::size_t duplicates_made_ = 0;
  std::size_t counters_made_ = 0;
};

}  // namespace laconic::threads
