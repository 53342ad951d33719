#pragma once

#include <memory>
#include <string>

#include "laconic/communicator.h"

namespace laconic::test {

/// The engine underneath, but one bit of what this rank receives by all_to_all_varying is flipped on the way.
class DamagingCommunicator : public Communicator {
 public:
  DamagingCommunicator(Communicator& inner, std::uint64_t byte) : inner_(inner), byte_(byte) {
    set_timeout(inner.timeout());
  }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Handle all_reduce(View<float> values, Reduction reduction) override { return inner_.all_reduce(values, reduction); }
  Handle reduce_scatter(View<const float> values, View<float> chunk) override {
    return inner_.reduce_scatter(values, chunk);
  }
  Handle all_gather(View<const std::byte> mine, View<std::byte> all) override { return inner_.all_gather(mine, all); }
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const Part> parts) override {
    return inner_.all_gather_varying(mine, all, parts);
  }
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive) override {
    return inner_.all_to_all(send, receive);
  }
  Handle all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts, View<std::byte> receive,
                            std::span<const Part> receive_parts) override {
    inner_.all_to_all_varying(send, send_parts, receive, receive_parts).wait();
    receive[receive_parts.back().offset + byte_] ^= std::byte{4};
    return {};
  }
  Handle broadcast(View<std::byte> bytes, int root) override { return inner_.broadcast(bytes, root); }
  Handle barrier() override { return inner_.barrier(); }
  std::unique_ptr<Communicator> duplicate() override { return inner_.duplicate(); }
  std::unique_ptr<SharedCounter> make_counter() override { return inner_.make_counter(); }
  void fail(std::string_view reason) noexcept override { inner_.fail(reason); }
  std::string description() const override { return inner_.description(); }

 private:
  Communicator& inner_;
  std::uint64_t byte_;
};

}  // namespace laconic::test
