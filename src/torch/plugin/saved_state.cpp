#include "torch/plugin/saved_state.h"

#include <vector>

#include "laconic/error.h"
#include "transport/agreement.h"

namespace laconic::plugin {
namespace {

constexpr const char* kTensors = "tensors";

/// FNV-1a of name and size, one word a tensor.
std::vector<std::uint32_t> words_of(std::span<const Tensor> tensors) {
  std::vector<std::uint32_t> words;
  for (const Tensor& tensor : tensors) {
    std::uint32_t word = 2166136261U;
    for (const char letter : tensor.name + ":" + std::to_string(tensor.size)) {
      word = (word ^ static_cast<std::uint8_t>(letter)) * 16777619U;
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

void put_tensors(State& state, std::span<const Tensor> tensors) {
  const std::vector<std::uint32_t> words = words_of(tensors);
  state.put(kTensors, View<const std::uint32_t>(words));
}

void require_tensors(const State& state, std::span<const Tensor> tensors) {
  const std::vector<std::uint32_t> mine = words_of(tensors);
  if (state.size(kTensors) != mine.size()) {
    throw InvalidConfig("saved state is of " + std::to_string(state.size(kTensors)) + " parameters, this model has " +
                        std::to_string(mine.size()) + ": load it for the same model");
  }
  std::vector<std::uint32_t> saved(mine.size());
  state.get(kTensors, View<std::uint32_t>(saved));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (saved[i] == mine[i]) continue;
    throw InvalidConfig("saved state has another parameter, or another size, in the place of " + tensors[i].name +
                        " with " + std::to_string(tensors[i].size) + " entries: load it for the same model");
  }
}

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
