#include "methods/combinations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/refusal.h"
#include "laconic/threads.h"
#include "methods/table.h"

namespace laconic {
namespace {

/// An option and the states in which it is tried; no text: it is not given.
struct Axis {
  std::string option;
  std::vector<std::optional<std::string>> states;
};

/// One choice of each of some options.
using Assignment = std::vector<SettingText>;

/// An assignment that is refused, and why.
struct Refused {
  Assignment assignment;
  std::string reason;
};

constexpr const char* kKeepsLess = "0.1";

/// Which optimizer steps the model: one of ours, the host's own, or none, because a DDP hook has the gradient only.
enum class Stepper : std::uint8_t { sgd, adam, adamw, of_host, none };

SettingText text_of_stepper(Stepper stepper) {
  switch (stepper) {
    case Stepper::sgd: return {"optimizer", "sgd"};
    case Stepper::adam: return {"optimizer", "adam"};
    case Stepper::adamw: return {"optimizer", "adamw"};
    case Stepper::of_host: return {"optimizer", "the host's own"};
    case Stepper::none: break;
  }
  return {"called by", "a DDP hook"};
}

OptimizerOptions optimizer_of_stepper(Stepper stepper) {
  if (stepper != Stepper::of_host) return {.name = text_of_stepper(stepper).second};
  return {.name = "host", .host = [](View<const float>, View<float>) {}};
}

std::vector<Axis> axes_of(const MethodRow& row) {
  std::vector<Axis> axes;
  for (const Parameter& parameter : row.parameters) {
    Axis axis{parameter.name, {}};
    if (parameter.number == &MethodOptions::keep) axis.states = {"1", kKeepsLess};
    if (parameter.word != nullptr) {
      if (parameter.counts != nullptr) axis.states.emplace_back();  // given or not is not the same
      axis.states.insert(axis.states.end(), parameter.choices.begin(), parameter.choices.end());
    }
    if (!axis.states.empty()) axes.push_back(std::move(axis));
  }
  return axes;
}

/// The options of an assignment, with the numbers without which some of its choices mean nothing.
MethodOptions options_of(const MethodRow& row, const Assignment& assignment) {
  MethodOptions options;
  for (const auto& [option, choice] : assignment) set_option(options, row.name, option, choice);
  if (options.pace == "async") options.total_steps = 100.0;
  if (options.rule == "convex") {
    options.kappa = options.smoothness = options.convexity = 1.0;
    options.step_size = 0.1;
    options.total_steps = 100.0;
  }
  return options;
}

/// Makes methods for a small model on one rank, and drops them.
class Trial {
 public:
  /// Why the method is refused; nothing if it is not.
  std::optional<std::string> refusal(const MethodRow& row, const Assignment& assignment,
                                     Stepper stepper = Stepper::sgd) {
    ++tried_;
    try {
      make(row, options_of(row, assignment), stepper);
    } catch (const Refusal& refusal) {
      return refusal.reason();
    } catch (const InvalidConfig& error) {
      return error.what();
    }
    return std::nullopt;
  }
  std::size_t tried() const { return tried_; }

 private:
  void make(const MethodRow& row, const MethodOptions& options, Stepper stepper) {
    const std::vector<Tensor> tensors{{"weight", 200}, {"bias", 7}};
    Communicator& alone = *ranks_.front();
    if (stepper == Stepper::none) return make_method(row.name, options, alone, place_)->register_tensors(tensors);
    make_model_method(row.name, options, optimizer_of_stepper(stepper), alone, place_)->register_tensors(tensors);
  }

  Place place_{{.threads = 1}};
  std::vector<std::unique_ptr<Communicator>> ranks_ = thread_communicators(1);
  std::size_t tried_ = 0;
};

/// Every combination of the states of a method's options, with whether it works.
class Product {
 public:
  Product(const MethodRow& row, Trial& trial) : axes_(axes_of(row)) {
    std::size_t size = 1;
    for (const Axis& axis : axes_) size *= axis.states.size();
    for (std::size_t number = 0; number < size; ++number) {
      std::vector<std::size_t> states;
      Assignment assignment;
      std::size_t rest = number;
      for (const Axis& axis : axes_) {
        states.push_back(rest % axis.states.size());
        rest /= axis.states.size();
        const auto& state = axis.states[states.back()];
        if (state) assignment.emplace_back(axis.option, *state);
      }
      reasons_.push_back(trial.refusal(row, assignment));
      states_.push_back(std::move(states));
    }
  }

  /// The smallest assignments that no combination which works contains.
  std::vector<Refused> smallest_refused() {
    std::vector<Refused> found;
    for (std::size_t count = 1; count <= axes_.size() && !found_all(); ++count) {
      std::vector<std::size_t> chosen;
      choose(count, 0, chosen, found);
      explained_.insert(newly_explained_.begin(), newly_explained_.end());
    }
    return found;
  }

 private:
  using States = std::vector<std::size_t>;

  bool found_all() const {
    for (std::size_t i = 0; i < reasons_.size(); ++i) {
      if (reasons_[i] && explained_.count(i) == 0) return false;
    }
    return true;
  }

  /// Goes through the sets of `count` axes.
  void choose(std::size_t count, std::size_t next, std::vector<std::size_t>& chosen, std::vector<Refused>& found) {
    if (chosen.size() == count) return look_at(chosen, found);
    for (std::size_t axis = next; axis < axes_.size(); ++axis) {
      chosen.push_back(axis);
      choose(count, axis + 1, chosen, found);
      chosen.pop_back();
    }
  }

  States states_in(std::size_t combination, const std::vector<std::size_t>& chosen) const {
    States states;
    for (const std::size_t axis : chosen) states.push_back(states_[combination][axis]);
    return states;
  }

  /// The states of these axes that never work and are not refused because of fewer of them.
  void look_at(const std::vector<std::size_t>& chosen, std::vector<Refused>& found) {
    std::map<States, std::vector<std::size_t>> combinations;
    for (std::size_t i = 0; i < reasons_.size(); ++i) combinations[states_in(i, chosen)].push_back(i);
    for (const auto& [states, having] : combinations) {
      Assignment assignment;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto& state = axes_[chosen[i]].states[states[i]];
        if (state) assignment.emplace_back(axes_[chosen[i]].option, *state);
      }
      if (assignment.size() < chosen.size()) continue;
      const auto works = [&](std::size_t i) { return !reasons_[i].has_value(); };
      const auto is_explained = [&](std::size_t i) { return explained_.count(i) > 0; };
      if (std::any_of(having.begin(), having.end(), works)) continue;
      if (std::all_of(having.begin(), having.end(), is_explained)) continue;
      found.push_back({std::move(assignment), reason_for(chosen, having)});
      newly_explained_.insert(having.begin(), having.end());
    }
  }

  /// The reason of a combination that would work if any one of these axes had another state: nothing else is wrong there.
  std::string reason_for(const std::vector<std::size_t>& chosen, const std::vector<std::size_t>& having) const {
    const auto is_cause = [&](std::size_t i) {
      return std::all_of(chosen.begin(), chosen.end(), [&](std::size_t axis) { return works_without(i, axis); });
    };
    const auto clear = std::find_if(having.begin(), having.end(), is_cause);
    return *reasons_[clear == having.end() ? having.front() : *clear];
  }

  bool works_without(std::size_t combination, std::size_t axis) const {
    std::size_t stride = 1;
    for (std::size_t i = 0; i < axis; ++i) stride *= axes_[i].states.size();
    const std::size_t first = combination - states_[combination][axis] * stride;
    for (std::size_t state = 0; state < axes_[axis].states.size(); ++state) {
      if (!reasons_[first + state * stride]) return true;
    }
    return false;
  }

  std::vector<Axis> axes_;
  std::vector<std::optional<std::string>> reasons_;  ///< why a combination is refused; nothing if it works
  std::vector<States> states_;                       ///< of each combination, by axis
  std::set<std::size_t> explained_;                  ///< combinations that contain a refused assignment of fewer axes
  std::set<std::size_t> newly_explained_;            ///< or of as many
};

/// A choice as the table shows it.
std::string shown(const MethodRow& row, const SettingText& choice) {
  const Parameter* parameter = row.find_parameter(choice.first);
  if (parameter == nullptr || parameter->number == nullptr) return choice.second;
  if (parameter->number != &MethodOptions::keep) return "any number";
  return choice.second == kKeepsLess ? "below 1" : choice.second;
}

/// Refused assignments of one method, joined where they differ in choices only.
std::vector<RefusedCombination> joined(const MethodRow& row, const std::vector<Refused>& refused) {
  // By reason and options.
  std::map<std::pair<std::string, std::vector<std::string>>, std::vector<Assignment>> groups;
  for (const auto& [assignment, reason] : refused) {
    std::vector<std::string> options;
    for (const auto& [option, choice] : assignment) options.push_back(option);
    groups[{reason, options}].push_back(assignment);
  }
  std::vector<RefusedCombination> all;
  for (const auto& [key, assignments] : groups) {
    std::vector<Choices> options;
    std::size_t product = 1;
    for (std::size_t i = 0; i < key.second.size(); ++i) {
      Choices choices{key.second[i], {}};
      for (const Assignment& assignment : assignments) {
        const std::string choice = shown(row, assignment[i]);
        if (std::count(choices.second.begin(), choices.second.end(), choice) == 0) choices.second.push_back(choice);
      }
      product *= choices.second.size();
      options.push_back(std::move(choices));
    }
    if (product == assignments.size()) {
      all.push_back({std::move(options), {row.name}, key.first});
      continue;
    }
    for (const Assignment& assignment : assignments) {
      RefusedCombination one{{}, {row.name}, key.first};
      for (const SettingText& choice : assignment) one.options.push_back({choice.first, {shown(row, choice)}});
      all.push_back(std::move(one));
    }
  }
  return all;
}

/// A number that may be left out, as a choice: any number in its range.
std::optional<std::string> any_number(const Parameter& parameter) {
  if (parameter.number == nullptr || !parameter.fallback.empty() || parameter.counts != nullptr) return std::nullopt;
  return parameter.interval.has(0.5) && !parameter.whole ? "0.5" : text_of(parameter.interval.high);
}

/// What works with SGD in a loop and not with another optimizer or none.
void add_refused_by_stepper(const MethodRow& row, Trial& trial, std::vector<Refused>& refused) {
  std::vector<Assignment> singles{{}};
  for (const Axis& axis : axes_of(row)) {
    for (const auto& state : axis.states) {
      if (state) singles.push_back({{axis.option, *state}});
    }
  }
  for (const Parameter& parameter : row.parameters) {
    if (const auto number = any_number(parameter)) singles.push_back({{parameter.name, *number}});
  }
  for (const Stepper stepper : {Stepper::adam, Stepper::adamw, Stepper::of_host, Stepper::none}) {
    if (stepper == Stepper::none && row.face != Face::gradient) continue;
    for (const Assignment& single : singles) {
      if (trial.refusal(row, single)) continue;
      const auto reason = trial.refusal(row, single, stepper);
      if (!reason) continue;
      Assignment with_stepper = single;
      with_stepper.push_back(text_of_stepper(stepper));
      refused.push_back({std::move(with_stepper), *reason});
      if (single.empty()) break;  // nothing works
    }
  }
}

void add_offered(const MethodRow& row, std::vector<OfferedOption>& offered) {
  for (const Axis& axis : axes_of(row)) {
    Choices option{axis.option, {}};
    for (const auto& state : axis.states) {
      if (state) option.second.push_back(shown(row, {axis.option, *state}));
    }
    const auto same = std::find_if(offered.begin(), offered.end(),
                                   [&](const OfferedOption& each) { return each.option == option; });
    if (same == offered.end()) {
      offered.push_back({std::move(option), {row.name}});
    } else {
      same->methods.push_back(row.name);
    }
  }
}

void add_refused(const MethodRow& row, Trial& trial, std::vector<RefusedCombination>& all) {
  std::vector<Refused> refused = Product(row, trial).smallest_refused();
  add_refused_by_stepper(row, trial, refused);
  for (RefusedCombination& one : joined(row, refused)) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const RefusedCombination& each) {
      return each.options == one.options && each.reason == one.reason;
    });
    if (same == all.end()) {
      all.push_back(std::move(one));
    } else {
      same->methods.push_back(row.name);
    }
  }
}

}  // namespace

Combinations find_combinations() {
  Combinations all;
  Trial trial;
  for (const MethodRow& row : method_table()) {
    add_offered(row, all.offered);
    add_refused(row, trial, all.refused);
  }
  std::stable_sort(all.offered.begin(), all.offered.end(),
                   [](const OfferedOption& one, const OfferedOption& other) { return one.option.first < other.option.first; });
  all.tried = trial.tried();
  return all;
}

}  // namespace laconic
