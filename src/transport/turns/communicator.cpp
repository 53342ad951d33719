#include "transport/turns/communicator.h"

#include "transport/members.h"

namespace laconic::turns {

Handle TurnCommunicator::start(const Call& call) {
  threads::ThreadOperation& started = channel_->start(call);
  TurnOperation& operation =
      operations_.take([this] { return std::make_unique<TurnOperation>(turns_, operations_); });
  operation.begin(started);
  return {&operation, timeout()};
}

std::unique_ptr<Communicator> TurnCommunicator::duplicate() {
  auto communicator = std::make_unique<TurnCommunicator>(turns_, channel_->duplicate());
  communicator->set_timeout(timeout());
  communicator->barrier().wait();  // from here on every rank has it
  return communicator;
}

std::unique_ptr<Communicator> TurnCommunicator::split(int color) {
  auto communicator = std::make_unique<TurnCommunicator>(turns_, channel_->part(members_of_color(*this, color)));
  communicator->set_timeout(timeout());
  barrier().wait();  // from here on every rank has its part
  return communicator;
}

std::unique_ptr<SharedCounter> TurnCommunicator::make_counter() {
  auto counter = channel_->make_counter();
  barrier().wait();  // from here on every rank holds it
  return counter;
}

std::string TurnCommunicator::description() const {
  return "in turn, " + std::to_string(size()) + (size() == 1 ? " rank" : " ranks");
}

}  // namespace laconic::turns
