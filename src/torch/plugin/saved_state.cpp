#include "torch/plugin/saved_state.h"

#include <algorithm>
#include <vector>

#include "laconic/error.h"

namespace laconic::plugin {
namespace {

constexpr const char* kTensors = "tensors";

constexpr std::uint64_t kLongestRefusal = 4096;

/// What ranks tell each other of a load.
struct Answer {
  std::uint64_t place = 0;
  std::uint64_t refusal_bytes = 0;  ///< 0: none
};
static_assert(sizeof(Answer) == 16);

/// FNV-1a of name and size, one word per tensor.
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
  std::string text = refusal.substr(0, kLongestRefusal);
  const Answer mine{place, text.size()};
  std::vector<Answer> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const Answer>(&mine, 1)), as_writable_bytes(View<Answer>(all))).wait();
  const auto refuses = std::ranges::find_if(all, [](const Answer& each) { return each.refusal_bytes != 0; });
  if (refuses != all.end()) {
    const auto rank = static_cast<int>(refuses - all.begin());
    if (communicator.rank() != rank) text.assign(std::min(refuses->refusal_bytes, kLongestRefusal), ' ');
    communicator.broadcast({reinterpret_cast<std::byte*>(text.data()), text.size()}, rank).wait();
    if (!refusal.empty()) throw InvalidConfig(refusal);
    throw InvalidConfig("rank " + std::to_string(rank) +
                        " refused to load its state, and so no rank has loaded: " + text);
  }
  const auto other = std::ranges::find_if(all, [&](const Answer& each) { return each.place != all.front().place; });
  if (other == all.end()) return;
  throw InvalidConfig("rank " + std::to_string(other - all.begin()) + " was given a state of step " +
                      std::to_string(other->place) + ", rank 0 one of step " + std::to_string(all.front().place) +
                      ": load what all ranks saved together");
}

}  // namespace laconic::plugin
