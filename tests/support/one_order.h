#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "laconic/communicator.h"

namespace laconic::test {

/// The calls of one rank on an engine that needs one order.
struct CallLog {
  std::vector<std::pair<int, CallKind>> calls;  ///< the number of the communicator, and what was called
  int communicators = 0;                        ///< made so far, by duplicate or split
};

/// An engine that needs one order for the calls of all its communicators, as NCCL does. It records them.
class OneOrder final : public Communicator {
 public:
  OneOrder(std::unique_ptr<Communicator> inner, CallLog& log)
      : inner_(std::move(inner)), log_(log), number_(log.communicators) {
    set_timeout(inner_->timeout());
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool takes(Device device) const override { return inner_->takes(device); }
  bool reduces(Device device) const override { return inner_->reduces(device); }
  bool duplicates_overlap() const override { return false; }
  Handle start(const Call& call) override {
    log_.calls.emplace_back(number_, call.kind);
    return inner_->start(call);
  }
  std::unique_ptr<Communicator> duplicate() override { return counted(inner_->duplicate()); }
  std::unique_ptr<Communicator> split(int color) override { return counted(inner_->split(color)); }
  std::unique_ptr<SharedCounter> make_counter() override { return inner_->make_counter(); }
  void fail(std::string_view reason) noexcept override { inner_->fail(reason); }
  std::string description() const override { return inner_->description(); }

 private:
  std::unique_ptr<Communicator> counted(std::unique_ptr<Communicator> made) {
    ++log_.communicators;
    return std::make_unique<OneOrder>(std::move(made), log_);
  }

  std::unique_ptr<Communicator> inner_;
  CallLog& log_;
  int number_;
};

}  // namespace laconic::test
