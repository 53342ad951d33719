#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "experiment/checkpoint.h"
#include "support/text_of_file.h"
#include "tools/mpi_job.h"
#include "tools/program.h"

// Runs of four ranks, as threads and under mpirun, and what they leave.

namespace laconic::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kRanks = 4;

#if LACONIC_TORCH
// The cnn, whose tensors are more than one chunk: they travel while backward runs.
inline const std::string kWorkload = " --task digits --model cnn --train-samples 320 --test-samples 80 --batch 2 ";
#else
inline const std::string kWorkload = " --problem logistic-regression --set dimension=500 ";
#endif

inline std::string quoted(const std::string& text) { return " '" + text + "' "; }

/// What does not depend on the machine's speed.
inline Json without_seconds(const Json& json) {
  Json kept = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (!key.ends_with("seconds")) kept[key] = value;
  }
  return kept;
}

/// The bits: a comparison of numbers would take -0 for 0.
inline std::vector<std::uint32_t> model_of(const State& state) {
  std::vector<float> model(state.size("model"));
  state.get("model", model);
  std::vector<std::uint32_t> bits(model.size());
  std::transform(model.begin(), model.end(), bits.begin(),
                 [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return bits;
}

class MpiFiles : public Files {
 protected:
  std::string checkpoint(const std::string& run, int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%010d", step);
    return file(run + "/checkpoints/" + name);
  }

  /// Lines of metrics without what the machine's speed decides; a cut last one is left out.
  std::vector<Json> metrics(const std::string& run) const {
    std::ifstream input(file(run + "/metrics.jsonl"));
    std::vector<Json> lines;
    for (std::string line; std::getline(input, line);) {
      if (input.eof()) break;
      lines.push_back(without_seconds(Json::parse(line)));
    }
    return lines;
  }

  Outcome train_threads(const std::string& flags, const std::string& run) const {
    return laconic("train --workers 4" + kWorkload + flags + " --out" + quoted(file(run)));
  }

  MpiJob mpi(const std::string& arguments, const std::string& output) const {
    return {kRanks, arguments, file(output)};
  }
  std::string train_flags(const std::string& flags, const std::string& run) const {
    return "train" + kWorkload + flags + " --out" + quoted(file(run));
  }

  /// Everything that a run leaves but its times.
  void expect_same_runs(const std::string& one, const std::string& other) const {
    EXPECT_EQ(without_seconds(json(one + "/result.json")), without_seconds(json(other + "/result.json")));
    EXPECT_EQ(metrics(one), metrics(other));
#if LACONIC_TORCH
    ASSERT_TRUE(fs::exists(file(one + "/model.safetensors")));
    EXPECT_TRUE(text_of_file(file(one + "/model.safetensors")) == text_of_file(file(other + "/model.safetensors")))
        << "the models differ";
#endif
  }

  void expect_same_checkpoints(const std::string& one, const std::string& other, int step) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      const State left = read_checkpoint(checkpoint(one, step), rank);
      const State right = read_checkpoint(checkpoint(other, step), rank);
      EXPECT_TRUE(model_of(left) == model_of(right)) << "model of rank " << rank;
      for (const char* part : {"method", "learner"}) {
        EXPECT_TRUE(left.nested(part).to_bytes() == right.nested(part).to_bytes()) << part << " of rank " << rank;
      }
    }
  }
};

}  // namespace laconic::test
