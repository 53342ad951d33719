// Saving and loading: a state says whose memory it is and under which settings it means something.

#include <algorithm>

#include "laconic/error.h"
#include "methods/core.h"

namespace laconic {
namespace {

constexpr std::string_view kSetting = "setting/";
std::string setting_entry(const std::string& setting) { return std::string(kSetting) + setting; }

[[noreturn]] void refuse_state(const std::string& what) { throw InvalidConfig("saved state " + what); }

}  // namespace

void MethodMemory::require_loadable_memory(const State& state) const {
  State mine;
  save_memory(mine);
  state.require_entries_of(mine);
}

State MethodCore::save() const {
  memory_.require_savable();
  State state;
  put_identity(state);
  memory_.save_memory(state);
  return state;
}

void MethodCore::put_identity(State& state) const {
  state.put("method", name_);
  state.put("rank", static_cast<double>(rank()));
  state.put("ranks", static_cast<double>(ranks()));
  state.put("parameters", static_cast<double>(parameters_));
  for (const auto& [name, value] : settings_) state.put(setting_entry(name), value);
}

void MethodCore::require_loadable(const State& state) const {
  if (!registered_) refuse_state("needs registered tensors before it is loaded: call register_tensors first");
  require_same_identity(state);
  require_same_settings(state);
  {
    State mine;
    put_identity(mine);
    memory_.save_memory(mine);
    state.require_no_entries_beyond(mine);
  }
  memory_.require_loadable_memory(state);
}

void MethodCore::require_same_identity(const State& state) const {
  if (const std::string saved = state.text("method"); saved != name_) {
    refuse_state("is of another method than " + name_ + ", of " + saved + ": load it into the method that saved it");
  }
  const auto expect = [&](const char* field, std::uint64_t mine, const char* remedy) {
    const std::uint64_t saved = state.count(field);
    if (saved == mine) return;
    refuse_state("has " + std::string(field) + " = " + std::to_string(saved) + ", this is " + std::to_string(mine) +
                 ": " + remedy);
  };
  expect("ranks", static_cast<std::uint64_t>(ranks()), "load it on as many ranks, then resize");
  expect("rank", static_cast<std::uint64_t>(rank()), "each rank loads its own");
  expect("parameters", parameters_, "load it for the same model");
}

void MethodCore::require_same_settings(const State& state) const {
  const auto refuse = [&](const std::string& saved, const std::string& mine) {
    refuse_state("was saved with " + saved + ", this " + name_ + " has " + mine +
                 ": make the method with the settings of the run that was saved");
  };
  for (const auto& [name, mine] : settings_) {
    if (!state.has(setting_entry(name))) refuse("no " + name, name + " = " + mine);
    const std::string saved = state.text(setting_entry(name));
    if (saved != mine) refuse(name + " = " + saved, name + " = " + mine);
  }
  for (const std::string& entry : state.names()) {
    if (!entry.starts_with(kSetting)) continue;
    const std::string name = entry.substr(kSetting.size());
    const bool known =
        std::any_of(settings_.begin(), settings_.end(), [&](const SettingText& each) { return each.first == name; });
    if (!known) refuse(name + " = " + state.text(entry), "no " + name);
  }
}

void MethodCore::load(const State& state) {
  require_loadable(state);
  memory_.load_memory(state);
  phase_ = Phase::loaded;
}

}  // namespace laconic
