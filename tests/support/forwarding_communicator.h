#pragma once

#include <memory>
#include <string>
#include <utility>

#include "laconic/communicator.h"

namespace laconic::test {

/// Another communicator, unchanged. A test overrides what it changes or watches.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> owned) : owned_(std::move(owned)), inner_(*owned_) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool takes(Device device) const override { return inner_.takes(device); }
  bool reduces(Device device) const override { return inner_.reduces(device); }
  bool duplicates_overlap() const override { return inner_.duplicates_overlap(); }
  Handle start(const Call& call) override { return inner_.start(call); }
  std::unique_ptr<Communicator> duplicate() override { return inner_.duplicate(); }
  std::unique_ptr<Communicator> split(int color) override { return inner_.split(color); }
  std::unique_ptr<SharedCounter> make_counter() override { return inner_.make_counter(); }
  void fail(std::string_view reason) noexcept override { inner_.fail(reason); }
  std::string description() const override { return inner_.description(); }
  Milliseconds timeout() const override { return inner_.timeout(); }
  void set_timeout(Milliseconds timeout) override { inner_.set_timeout(timeout); }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
};

}  // namespace laconic::test
