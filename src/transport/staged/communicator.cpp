#include "transport/staged/communicator.h"

#include "base/device_queue.h"

namespace laconic::staged {

Handle StagedCommunicator::start(const Call& call) {
  if (call.device == Device::cpu) return engine_->start(call);
  if (size() == 1) {
    deliver_alone(call);
    return {};
  }
  if (engine_reaches(call.kind)) {
    place_.queue()->wait();
    return engine_->start(call);
  }
  StagedOperation& operation =
      operations_.take([this] { return std::make_unique<StagedOperation>(place_, operations_); });
  try {
    operation.begin(*engine_, call);
  } catch (...) {
    operations_.give_back(operation);
    throw;
  }
  return {&operation, timeout()};
}

std::string StagedCommunicator::description() const {
  return engine_->description() + (engine_reaches(CallKind::all_gather) ? ", on the device" : ", through pinned memory");
}

bool StagedCommunicator::engine_reaches(CallKind kind) const {
  const bool reduces = kind == CallKind::all_reduce || kind == CallKind::reduce_scatter;
  return reduces ? engine_->reduces(place_.device()) : engine_->takes(place_.device());
}

/// What a group of one sends itself stays on the device.
void StagedCommunicator::deliver_alone(const Call& call) {
  std::uint64_t bytes = call.bytes;
  const std::byte* from = call.send;
  std::byte* to = call.receive;
  if (!call.receive_ranges.empty()) {
    bytes = call.receive_ranges[0].bytes;
    to += call.receive_ranges[0].offset;
  }
  if (!call.send_ranges.empty()) from += call.send_ranges[0].offset;
  if (call.send == nullptr || bytes == 0 || from == to) return;  // in place, or nothing to move
  place_.queue()->copy(to, from, bytes);
}

}  // namespace laconic::staged
