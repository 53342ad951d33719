#include "experiment/config_state.h"

#include "experiment/config_text.h"
#include "experiment/run_settings.h"
#include "laconic/error.h"

namespace laconic {
namespace {

bool may_change(const ConfigEntry& entry) {
  const RunSetting* setting = find_run_setting(entry.section, entry.key);
  return setting != nullptr && setting->may_change;
}

}  // namespace

State config_state(const RunConfig& config) {
  State state;
  for (const ConfigEntry& entry : entries_of(config)) state.put(full_name(entry), entry.value);
  return state;
}

void require_same_config(const State& saved, const RunConfig& config, const std::string& checkpoint) {
  for (const ConfigEntry& entry : entries_of(config)) {
    const std::string name = full_name(entry);
    if (may_change(entry) || !saved.has(name)) continue;
    const std::string before = saved.text(name);
    if (before == entry.value) continue;
    throw InvalidConfig(checkpoint + " is of a run with " + name + " = " + or_none(before) + ", this run has " +
                        or_none(entry.value) + ": set it back, or start a new run");
  }
}

}  // namespace laconic
