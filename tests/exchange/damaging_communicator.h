#pragma once

#include <memory>
#include <string>

#include "laconic/communicator.h"

namespace laconic::test {

/// Which of the messages that a rank receives is damaged.
enum class Damage : std::uint8_t { pieces, returned, announced };

/// The engine underneath, but one bit of what this rank receives is flipped on the way: in the last rank's part of a
/// message of varying sizes (pieces: all-to-all, returned: all-gather), or in the highest byte of a number that another
/// rank announces (announced: the first message of equal parts).
class DamagingCommunicator : public Communicator {
 public:
  DamagingCommunicator(Communicator& inner, Damage damage, std::uint64_t byte)
      : inner_(inner), damage_(damage), byte_(byte) {
    set_timeout(inner.timeout());
  }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Handle all_reduce(View<float> values, Reduction reduction) override { return inner_.all_reduce(values, reduction); }
  Handle reduce_scatter(View<const float> values, View<float> chunk) override {
    return inner_.reduce_scatter(values, chunk);
  }
  Handle all_gather(View<const std::byte> mine, View<std::byte> all) override {
    inner_.all_gather(mine, all).wait();
    flip(Damage::announced, all, all.size() - 1);
    return {};
  }
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const Part> parts) override {
    inner_.all_gather_varying(mine, all, parts).wait();
    flip(Damage::returned, all, parts.back().offset + byte_);
    return {};
  }
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive) override {
    inner_.all_to_all(send, receive).wait();
    flip(Damage::announced, receive, receive.size() - 1);
    return {};
  }
  Handle all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts, View<std::byte> receive,
                            std::span<const Part> receive_parts) override {
    inner_.all_to_all_varying(send, send_parts, receive, receive_parts).wait();
    flip(Damage::pieces, receive, receive_parts.back().offset + byte_);
    return {};
  }
  Handle broadcast(View<std::byte> bytes, int root) override { return inner_.broadcast(bytes, root); }
  Handle barrier() override { return inner_.barrier(); }
  std::unique_ptr<Communicator> duplicate() override { return inner_.duplicate(); }
  std::unique_ptr<SharedCounter> make_counter() override { return inner_.make_counter(); }
  void fail(std::string_view reason) noexcept override { inner_.fail(reason); }
  std::string description() const override { return inner_.description(); }

 private:
  void flip(Damage kind, View<std::byte> bytes, std::uint64_t at) {
    if (kind == damage_) bytes[at] ^= std::byte{4};
  }

  Communicator& inner_;
  Damage damage_;
  std::uint64_t byte_;
};

}  // namespace laconic::test
