#include "experiment/config_state.h"

#include "experiment/config_text.h"
#include "laconic/error.h"

namespace laconic {
namespace {

std::string name_of(const ConfigEntry& entry) { return entry.section + "." + entry.key; }

bool may_change(const std::string& name) {
  return name == "run.threads" || name == "run.timeout" || name == "run.checkpoint_interval";
}

// A state holds numbers: a character is one.
void put_text(State& state, const std::string& name, const std::string& text) {
  const std::vector<std::uint32_t> characters(text.begin(), text.end());
  state.put(name, View<const std::uint32_t>(characters));
}

std::string text_in(const State& state, const std::string& name) {
  std::vector<std::uint32_t> characters(state.size(name));
  state.get(name, View<std::uint32_t>(characters));
  std::string text;
  for (const std::uint32_t character : characters) text += static_cast<char>(character);
  return text;
}

std::string shown(const std::string& value) { return value.empty() ? "none" : value; }

}  // namespace

State config_state(const RunConfig& config) {
  State state;
  for (const ConfigEntry& entry : entries_of(config)) put_text(state, name_of(entry), entry.value);
  return state;
}

void require_same_config(const State& saved, const RunConfig& config, const std::string& checkpoint) {
  for (const ConfigEntry& entry : entries_of(config)) {
    const std::string name = name_of(entry);
    if (may_change(name) || !saved.has(name)) continue;
    const std::string before = text_in(saved, name);
    if (before == entry.value) continue;
    throw InvalidConfig(checkpoint + " is of a run with " + name + " = " + shown(before) + ", this run has " +
                        shown(entry.value) + ": set it back, or start a new run");
  }
}

}  // namespace laconic
