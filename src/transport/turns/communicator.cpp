#include "transport/turns/communicator.h"

namespace laconic::turns {

Handle TurnCommunicator::start(const Call& call) {
  threads::ThreadOperation& started = channel().start(call);
  TurnOperation& operation =
      operations_.take([this] { return std::make_unique<TurnOperation>(turns_, operations_); });
  operation.begin(started);
  return {&operation, timeout()};
}

}  // namespace laconic::turns
