#include "torch/plugin/redeal.h"

#include <algorithm>

#include "laconic/threads.h"

namespace laconic::plugin {
namespace {

/// One rank in both groups. `before`: null for a newcomer, who begins alone. `after`: null for one that leaves.
State resized(const MethodMaker& make, std::span<const Tensor> tensors, Communicator* before, Communicator* after,
              const State* saved, View<float> model) {
  const auto alone = thread_communicators(1);
  Place place({.threads = 1});
  const auto method = make(before != nullptr ? *before : *alone.front(), place);
  method->register_tensors(tensors);
  if (saved != nullptr) method->load(*saved);
  method->resize(after);
  if (after == nullptr) return {};
  if (auto* steps = dynamic_cast<ModelMethod*>(method.get()); steps != nullptr && !model.empty()) steps->start(model);
  return method->save();
}

}  // namespace

State redealt(std::span<const State> saved, int rank, int ranks, std::span<const Tensor> tensors,
              const MethodMaker& make, View<float> model) {
  const int olds = static_cast<int>(saved.size());
  const auto before = thread_communicators(olds);
  const auto after = thread_communicators(ranks);
  State mine;
  run_ranks(std::max(olds, ranks), [&](Communicator& all) {
    const int me = all.rank();
    const auto at = static_cast<std::size_t>(me);
    Communicator* old_rank = me < olds ? before[at].get() : nullptr;
    Communicator* new_rank = me < ranks ? after[at].get() : nullptr;
    std::vector<float> others;  // start writes every rank's model
    if (me != rank && !model.empty()) others.resize(model.size());
    try {
      State state =
          resized(make, tensors, old_rank, new_rank, me < olds ? &saved[at] : nullptr, me == rank ? model : others);
      if (me == rank) mine = std::move(state);
    } catch (const std::exception& error) {
      for (Communicator* each : {old_rank, new_rank}) {
        if (each != nullptr) each->fail(error.what());
      }
      throw;
    }
  });
  return mine;
}

}  // namespace laconic::plugin
