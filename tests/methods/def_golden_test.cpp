// The bits of EF, DEF and DEF-A with SGD, as checksums of whole runs. They may change only on purpose: a run that was
// saved by one version goes on in the next.

#include <gtest/gtest.h>

#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

/// FNV-1a over the bytes of floats.
class Digest {
 public:
  void add(const std::vector<float>& values) {
    for (const std::byte each : as_bytes(View<const float>(values))) {
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(each)) * 0x100000001B3;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325;
};

/// Multiples of 1/256 in [-2, 2), without the standard library's distributions, which differ between systems.
std::vector<float> plain_values(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  std::uint64_t state = 2 * seed + 1;
  for (float& value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<float>(static_cast<std::int64_t>(state >> 54U) - 512) / 256.0F;
  }
  return values;
}

struct Golden {
  const char* name;
  const char* method;
  MethodOptions options;
  OptimizerOptions optimizer;
  std::uint64_t digest;
};

class GoldenRun : public testing::TestWithParam<Golden> {};

INSTANTIATE_TEST_SUITE_P(
    Def, GoldenRun,
    testing::Values(
        Golden{"def_plain", "def", {.ratio = 8}, {},
               0x6066143e37907fa},
        Golden{"def_momentum", "def", {.ratio = 8}, {.momentum = 0.9},
               0x3b51ed8d26c52f4b},
        Golden{"def_nesterov_decay", "def", {.ratio = 8}, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
               0x678c52b4a23b6df0},
        Golden{"def_local_steps", "def", {.ratio = 8, .lambda = 0.6, .local_steps = 3}, {.momentum = 0.9},
               0x91ac6d0efe4ed403},
        Golden{"def_half", "def", {.ratio = 8, .values = "f16"}, {.momentum = 0.9, .weight_decay = 0.01},
               0xf032c274971d0b43},
        Golden{"def_model_scope", "def", {.ratio = 8, .scope = "model", .lambda = 1.0}, {.momentum = 0.5},
               0xdddece2e8d7ca4d},
        Golden{"def_a_plain", "def-a", {.ratio = 8}, {},
               0x3d7ba4532a736b1d},
        Golden{"def_a_nesterov_local_steps", "def-a", {.ratio = 8, .local_steps = 4},
               {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}, 0xee8eecc823e88d60},
        Golden{"def_a_bfloat", "def-a", {.ratio = 8, .values = "bf16", .local_steps = 2}, {.momentum = 0.9},
               0x49f2f450a1d465e6},
        Golden{"ef_plain", "ef-rbgs", {.ratio = 8}, {},
               0x4c850c4881c9bd9c},
        Golden{"ef_momentum_decay", "ef-rbgs", {.ratio = 8}, {.momentum = 0.9, .weight_decay = 0.01},
               0x3fb1f8f8ee00335d}),
    [](const auto& test) { return test.param.name; });

TEST_P(GoldenRun, HasTheBitsItAlwaysHad) {
  const Golden& golden = GetParam();
  std::vector<std::uint64_t> digests(3);
  run_ranks(3, [&](Communicator& communicator) {
    Worker worker(method_row(golden.method), golden.options, communicator, golden.optimizer);
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    const auto target = plain_values(worker.model.size(), 17 + rank);
    Digest digest;
    for (std::uint32_t step = 0; step < 13; ++step) {
      auto gradient = plain_values(worker.model.size(), 1'000 * (step + 1) + rank);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = worker.model[i] - target[i] + gradient[i] * 0.125F;
      }
      worker.method->step({{42, step, rank}, step < 7 ? 0.05F : 0.005F}, worker.model, gradient);
      digest.add(worker.model);
    }
    digest.add(worker.read_out());
    const State state = worker.method->save();
    for (const char* memory : {"point", "residual", "momentum"}) {
      std::vector<float> values(state.size(memory));
      state.get(memory, View<float>(values));
      digest.add(values);
    }
    digests[rank] = digest.value();
  });
  const std::uint64_t together = digests[0] ^ 3 * digests[1] ^ 7 * digests[2];
  EXPECT_EQ(together, golden.digest) << golden.name << " 0x" << std::hex << together;
}

}  // namespace
}  // namespace laconic::test
