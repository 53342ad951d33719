// What a set of methods saves, and how it continues from that.

#include <limits>

#include "methods/state_memory.h"
#include "torch/plugin/method_set.h"
#include "torch/plugin/saved_state.h"

namespace laconic::plugin {

State MethodSet::save() const {
  if (open_) throw InvalidConfig("cannot save in the middle of a step: save after backward");
  State state;
  state.put("rank", static_cast<double>(communicator_.rank()));
  state.put("ranks", static_cast<double>(communicator_.size()));
  state.put("seed", static_cast<double>(options_.seed));
  state.put("step", static_cast<double>(step_));
  state.put("skipped", static_cast<double>(skipped_));
  put_tensors(state, parameters_);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::string group = "group " + std::to_string(i);
    state.put(group, View<const std::uint32_t>(groups_[i].parameters));
    state.put(group, groups_[i].method->save());
  }
  if (options_.drops_unused) save_carried(state);
  return state;
}

void MethodSet::save_carried(State& state) const {
  state.put("is carried", View<const std::uint32_t>(is_carried_));
  if (carried_.capacity() > 0) put_memory(state, "carried", place_, carried_.view(offsets_.back()));
}

void MethodSet::require_loadable(const State& state) const {
  if (open_) throw InvalidConfig("cannot load in the middle of a step: load between steps");
  require_number(state, "ranks", communicator_.size(),
                 "residuals of another number of ranks cannot be redistributed here; start without them");
  require_number(state, "rank", communicator_.rank(), "each rank loads its own");
  require_number(state, "seed", static_cast<double>(options_.seed), "attach with the seed of the run that was saved");
  require_tensors(state, parameters_);
  state.count("step", std::numeric_limits<std::uint32_t>::max());
  state.count("skipped");
  if (state.has("group " + std::to_string(groups_.size()))) {
    throw InvalidConfig("saved state has more groups than the " + std::to_string(groups_.size()) +
                        " of this run: attach with the groups of the run that was saved");
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::string group = "group " + std::to_string(i);
    std::vector<std::uint32_t> members(state.size(group));
    state.get(group, View<std::uint32_t>(members));
    if (members != groups_[i].parameters) {
      throw InvalidConfig("saved state has other parameters in group " + std::to_string(i) +
                          ": attach with the groups of the run that was saved");
    }
    groups_[i].method->require_loadable(state.nested(group));
  }
  if (options_.drops_unused) {
    State expected;
    expected.put("is carried", View<const std::uint32_t>(is_carried_));
    if (carries(state)) expected.put("carried", View<const float>(std::vector<float>(offsets_.back())));
    state.require_entries_of(expected);
  } else if (state.has("is carried")) {
    throw InvalidConfig(
        "saved state is of a run with find_unused_parameters=True and carries aggregates of unused parameters: wrap "
        "the model in the same way");
  }
}

void MethodSet::take(const State& state) {
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].method->load(state.nested("group " + std::to_string(i)));
  if (options_.drops_unused) {
    state.get("is carried", View<std::uint32_t>(is_carried_));
    if (carries(state)) {
      reserve_carried();
      get_memory(state, "carried", place_, carried_.view(offsets_.back()));
    }
  }
  step_ = static_cast<std::uint32_t>(state.number("step"));
  skipped_ = static_cast<std::uint64_t>(state.number("skipped"));
}

void MethodSet::load(View<const std::byte> saved, std::string refusal) {
  State state;
  std::uint64_t step = 0;
  try {
    if (refusal.empty()) {
      state = State::from_bytes(saved);
      require_loadable(state);
      step = static_cast<std::uint64_t>(state.number("step"));
    }
  } catch (const std::exception& error) {
    refusal = error.what();
  }
  agree_on_load(communicator_, step, refusal);
  take(state);
}

}  // namespace laconic::plugin
