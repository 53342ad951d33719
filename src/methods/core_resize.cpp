// Ranks come or go.

#include <algorithm>
#include <cmath>

#include "base/scratch_status.h"
#include "base/transfer.h"
#include "exchange/dense_sum.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "methods/core.h"

namespace laconic {
namespace {

/// Copies one rank's memory to all. If no engine reaches the place's memory, the transport gets a copy of it.
void broadcast_memory(Communicator& communicator, Place& place, View<float> memory, int root) {
  if (engines_reach(place)) {
    communicator.broadcast(as_writable_bytes(memory), root).wait();
    return;
  }
  std::vector<float> here(memory.size());
  copy_to_cpu<float>(place, memory, here.data());
  communicator.broadcast(as_writable_bytes(View<float>(here)), root).wait();
  copy_from_cpu<float>(place, here.data(), memory);
}

}  // namespace

void MethodCore::resize(Communicator* next) {
  if (has_run()) {
    meet_newcomers(*communicator_);
    for (const View<float>& view : memory_.owed()) average_over_ranks(*communicator_, *place_, view);
  }
  if (pipeline_) pipeline_->leave();
  if (next == nullptr) return;
  const std::unique_ptr<Communicator> before = std::move(staged_);  // exchanges use it until they are made anew
  communicator_ = &reaching(*next);
  require_agreement(*communicator_, agreed_fields());
  if (pipeline_) pipeline_->join(chunked_->chunk_communicator(*communicator_));
  const int teller = meet_newcomers(*communicator_);
  for (const auto& views : {memory_.owed(), memory_.shared()}) {
    for (const View<float>& view : views) broadcast_memory(*communicator_, *place_, view, teller);
  }
  std::vector<double> numbers = memory_.shared_numbers();
  communicator_->broadcast(as_writable_bytes(View<double>(numbers)), teller).wait();
  memory_.take_numbers(numbers);
  phase_ = Phase::resized;
  memory_.regrouped();
}

/// Ranks tell each other whether they ran and what they remember, so that all go through the same list of memories.
/// Returns the lowest rank that ran: it tells the newcomers. Collective.
int MethodCore::meet_newcomers(Communicator& group) {
  struct Told {
    std::uint32_t ran;
    std::uint32_t has_late_memory;
  };
  const Told mine{has_run() ? 1U : 0U, memory_.has_late_memory() ? 1U : 0U};
  std::vector<Told> all(static_cast<std::size_t>(group.size()));
  group.all_gather(as_bytes(View<const Told>(&mine, 1)), as_writable_bytes(View<Told>(all))).wait();
  const auto first = std::find_if(all.begin(), all.end(), [](const Told& each) { return each.ran != 0; });
  if (first == all.end()) throw InvalidConfig("resize found no rank that ran before: start a new run instead");
  if (std::any_of(all.begin(), all.end(), [](const Told& each) { return each.has_late_memory != 0; })) {
    memory_.allocate_late_memory();
  }
  return static_cast<int>(first - all.begin());
}

double MethodCore::residual_norm() const {
  const auto memory = memory_.owed();
  if (memory.empty()) return 0.0;
  const ScratchStatus status(*place_);
  return std::sqrt(read_sum_of_squares(*place_, memory.front(), status.view()));
}

}  // namespace laconic
