#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "support/forwarding_communicator.h"

namespace laconic::test {

/// The calls of one rank on an engine that needs one order.
struct CallLog {
  std::vector<std::pair<int, CallKind>> calls;  ///< the number of the communicator, and what was called
  int communicators = 0;                        ///< made so far, by duplicate or split
};

/// An engine that needs one order for the calls of all its communicators, as NCCL does. It records them.
class OneOrder final : public ForwardingCommunicator {
 public:
  OneOrder(std::unique_ptr<Communicator> inner, CallLog& log)
      : ForwardingCommunicator(std::move(inner)), log_(log), number_(log.communicators) {}

  bool duplicates_overlap() const override { return false; }
  Handle start(const Call& call) override {
    log_.calls.emplace_back(number_, call.kind);
    return ForwardingCommunicator::start(call);
  }
  std::unique_ptr<Communicator> duplicate() override { return counted(ForwardingCommunicator::duplicate()); }
  std::unique_ptr<Communicator> split(int color) override { return counted(ForwardingCommunicator::split(color)); }

 private:
  std::unique_ptr<Communicator> counted(std::unique_ptr<Communicator> made) {
    ++log_.communicators;
    return std::make_unique<OneOrder>(std::move(made), log_);
  }

  CallLog& log_;
  int number_;
};

}  // namespace laconic::test
