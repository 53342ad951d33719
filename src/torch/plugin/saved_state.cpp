#include "torch/plugin/saved_state.h"

#include "laconic/error.h"
#include "transport/agreement.h"

namespace laconic::plugin {

void require_number(const State& state, const char* name, double mine, const char* remedy) {
  if (state.number(name) == mine) return;
  throw InvalidConfig("saved state has " + std::string(name) + " = " +
                      std::to_string(static_cast<std::int64_t>(state.number(name))) + ", this is " +
                      std::to_string(static_cast<std::int64_t>(mine)) + ": " + remedy);
}

void agree_on_load(Communicator& communicator, std::uint64_t place, const std::string& refusal) {
  const AgreedField field{"step of the saved state", refusal.empty() ? std::to_string(place) : refusal};
  try {
    require_agreement(communicator, {&field, 1});
  } catch (const InvalidConfig&) {
    if (refusal.empty()) throw;
  }
  if (!refusal.empty()) throw InvalidConfig(refusal);
}

}  // namespace laconic::plugin
