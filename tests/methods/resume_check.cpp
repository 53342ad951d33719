#include "methods/resume_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

namespace {

bool has_choice(const MethodRow& row, const char* name, const char* choice) {
  const Parameter* parameter = row.find_parameter(name);
  if (parameter == nullptr) return false;
  return std::find(parameter->choices.begin(), parameter->choices.end(), choice) != parameter->choices.end();
}

/// Magnitudes that a scope shares depend on what the scope is and on how sums come back.
void add_shared_magnitudes(const MethodRow& row, std::vector<WordChoice>& all) {
  if (!has_choice(row, "values", "sign")) return;
  const std::vector<std::array<const char*, 3>> cases{{"sign", "model", "coded"},
                                                      {"two", "tensor", "exact"},
                                                      {"sign", "tensor", "coded"},
                                                      {"sign", "chunk", "exact"},
                                                      {"two", "chunk", "coded"}};
  for (const auto& [values, scope, back] : cases) {
    if (!has_choice(row, "scope", scope)) continue;
    MethodOptions options = small_options(row);
    if (sends_all(row)) options.keep = 0.25;
    options.values = values;
    options.scope = scope;
    if (row.has_parameter("return")) options.return_ = back;
    if (options.scope == "chunk") options.chunk = 128;
    all.push_back({&row, std::string(row.name) + " " + values + " " + scope + " " + back, options});
  }
}

}  // namespace

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
        if (sends_all(row) && (name == "scope" || name == "route" || name == "return")) options.keep = 0.1;
        if (choice == "requantized") options.route = "scatter";
        if (name == "scope" && choice == "chunk") options.chunk = 128;  // several in the small model
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
    add_shared_magnitudes(row, all);
  }
  return all;
}

}  // namespace laconic::test
