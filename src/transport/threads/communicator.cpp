#include "transport/threads/communicator.h"

#include "laconic/threads.h"
#include "transport/members.h"
#include "transport/threads/world.h"

namespace laconic::threads {

std::unique_ptr<Communicator> WorldCommunicator::duplicate() {
  auto communicator = over(channel_->duplicate());
  communicator->set_timeout(timeout());
  communicator->barrier().wait();  // from here on every rank has it
  return communicator;
}

std::unique_ptr<Communicator> WorldCommunicator::split(int color) {
  auto communicator = over(channel_->subgroup(members_of_color(*this, color)));
  communicator->set_timeout(timeout());
  barrier().wait();  // from here on every rank has its subgroup
  return communicator;
}

std::unique_ptr<SharedCounter> WorldCommunicator::make_counter() {
  auto counter = channel_->make_counter();
  barrier().wait();  // from here on every rank holds it
  return counter;
}

std::string WorldCommunicator::description() const {
  return std::string(kind_) + ", " + std::to_string(size()) + (size() == 1 ? " rank" : " ranks");
}

}  // namespace laconic::threads

namespace laconic {

std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks, std::shared_ptr<Place> copying) {
  const auto world = std::make_shared<threads::World>(ranks, std::move(copying));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t rank = 0; rank < world->ranks(); ++rank) {
    communicators.push_back(
        std::make_unique<threads::ThreadCommunicator>(std::make_unique<threads::Channel>(world, rank)));
  }
  return communicators;
}

}  // namespace laconic
