#include "transport/staged/communicator.h"

namespace laconic::staged {

Handle StagedCommunicator::start(const Call& call) {
  if (call.device == Device::cpu) return engine_->start(call);
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

}  // namespace laconic::staged
