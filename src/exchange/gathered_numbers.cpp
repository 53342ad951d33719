#include "exchange/gathered_numbers.h"

#include <algorithm>

#include "base/check.h"

namespace laconic {

GatheredNumbers::GatheredNumbers(Communicator& communicator, Place& place, std::size_t count)
    : Exchange(communicator, place),
      count_(count),
      mine_(count),
      all_(count * static_cast<std::size_t>(communicator.size())) {}

void GatheredNumbers::start(View<const float> mine, StatusView status) {
  require_idle();
  require_size("mine", mine.size(), count_);
  std::copy(mine.begin(), mine.end(), mine_.begin());
  begin(status);
}

Handle GatheredNumbers::stage(int index) {
  if (index > 0) {
    done();
    return {};
  }
  cost().payload_bytes = count_ * sizeof(float);
  count_gathered(cost().payload_bytes, all_.size() * sizeof(float));
  return communicator().all_gather(as_bytes(View<const float>(mine_)), as_writable_bytes(View<float>(all_)));
}

}  // namespace laconic
