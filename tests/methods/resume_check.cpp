#include "methods/resume_check.h"

#include <gtest/gtest.h>

#include <cstring>

namespace laconic::test {

void check_resume(Communicator& communicator, const MethodRow& row, const MethodOptions& options, std::uint32_t cut) {
  constexpr std::uint32_t kSteps = 9;
  Worker straight(row, options, communicator);
  std::vector<std::byte> saved;
  std::vector<float> model;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    if (step == cut) {
      saved = straight.method->save().to_bytes();
      model = straight.model;
    }
    straight.step(step);
  }
  Worker resumed(row, options, communicator);
  resumed.model = model;
  resumed.method->load(State::from_bytes(saved));
  resumed.method->start(resumed.model);
  for (std::uint32_t step = cut; step < kSteps; ++step) resumed.step(step);
  EXPECT_EQ(std::memcmp(resumed.model.data(), straight.model.data(), model.size() * sizeof(float)), 0)
      << row.name << ", cut at " << cut << ", rank " << communicator.rank();
  EXPECT_EQ(resumed.method->save().to_bytes(), straight.method->save().to_bytes())
      << row.name << ", cut at " << cut << ", rank " << communicator.rank();
}

std::vector<WordChoice> every_word_choice() {
  std::vector<WordChoice> all;
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      const std::string name = parameter.name;
      if (name == "pace") continue;  // asynchronous runs have tests of their own
      for (const std::string& choice : parameter.choices) {
        if (choice == parameter.fallback) continue;
        MethodOptions options = small_options(row);
        options.*parameter.word = choice;
        if (name == "return") options.route = "scatter";
        if (name == "rounding") options.memory = "error";
        if (name == "memory") options.rounding = "stochastic";
        if (choice == "gather" && row.has_parameter("memory")) options.return_ = "full";
        if (choice == "convex") {
          options.kappa = 100.0;
          options.smoothness = 2.0;
          options.convexity = 0.5;
          options.step_size = 0.1;
          options.total_steps = 50.0;
        }
        all.push_back({&row, std::string(row.name) + " " + name + " = " + choice, options});
      }
    }
  }
  return all;
}

}  // namespace laconic::test
