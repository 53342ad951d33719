// What the table of combinations says is refused is refused, and what the other tests run is not in it.

#include "methods/combinations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/resume_check.h"
#include "support/support.h"

namespace laconic::test {
namespace {

const Combinations& combinations() {
  static const Combinations all = find_combinations();
  return all;
}

bool takes(const MethodRow& row, const MethodOptions& options) {
  const auto alone = thread_communicators(1);
  Place place({.threads = 1});
  try {
    make_model_method(row.name, options, {}, *alone.front(), place)->register_tensors(small_model());
    return true;
  } catch (const InvalidConfig&) {
    return false;
  }
}

/// Whether these options have a choice that the table names.
bool has_choice(const MethodRow& row, const MethodOptions& options, const Choices& named) {
  const auto is_named = [&](const std::string& choice) {
    return std::count(named.second.begin(), named.second.end(), choice) > 0;
  };
  const Parameter* parameter = row.find_parameter(named.first);
  if (parameter == nullptr) return false;  // an optimizer or a host
  if (parameter->word != nullptr) return is_named((options.*parameter->word).value_or("(not given)"));
  if (parameter->number != &MethodOptions::keep) return (options.*parameter->number).has_value();
  return is_named(options.keep.value_or(std::stod(parameter->fallback)) < 1.0 ? "below 1" : "1");
}

bool is_listed(const MethodRow& row, const MethodOptions& options) {
  const auto& refused = combinations().refused;
  return std::any_of(refused.begin(), refused.end(), [&](const RefusedCombination& each) {
    if (std::count(each.methods.begin(), each.methods.end(), row.name) == 0) return false;
    return std::all_of(each.options.begin(), each.options.end(),
                       [&](const Choices& named) { return has_choice(row, options, named); });
  });
}

/// All choices of each option with all of the others, as options.
std::vector<MethodOptions> expanded(const MethodRow& row, const RefusedCombination& refused) {
  std::vector<MethodOptions> all{{}};
  for (const auto& [option, choices] : refused.options) {
    std::vector<MethodOptions> next;
    for (const MethodOptions& options : all) {
      for (const std::string& choice : choices) {
        next.push_back(options);
        set_option(next.back(), row.name, option, choice == "below 1" ? "0.25" : choice);
      }
    }
    all = std::move(next);
  }
  return all;
}

TEST(CombinationsTable, ListsWhatIsRefused) {
  std::size_t checked = 0;
  for (const RefusedCombination& refused : combinations().refused) {
    EXPECT_FALSE(refused.reason.empty());
    EXPECT_GE(refused.options.size(), 2U) << refused.options.front().first << ": no choice is refused everywhere";
    for (const std::string& name : refused.methods) {
      const MethodRow& row = method_row(name);
      const bool of_options = std::all_of(refused.options.begin(), refused.options.end(),
                                          [&](const Choices& each) { return row.has_parameter(each.first); });
      if (!of_options) continue;
      for (const MethodOptions& options : expanded(row, refused)) {
        EXPECT_FALSE(takes(row, options)) << name << ": " << refused.reason;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 100U);
}

TEST(CombinationsTable, DoesNotListWhatWorks) {
  for (const WordChoice& choice : every_word_choice()) {
    EXPECT_TRUE(takes(*choice.row, choice.options)) << choice.description;
    EXPECT_FALSE(is_listed(*choice.row, choice.options)) << choice.description;
  }
  EXPECT_TRUE(is_listed(method_row("topk"), {.route = "gather", .return_ = "coded"}));
  EXPECT_TRUE(is_listed(method_row("localsgd"), {.scope = "tensor", .values = "bf16"})) << "f16 as well as f32";
}

TEST(CombinationsTable, OffersEveryWordOfTheMethodTable) {
  for (const MethodRow& row : method_table()) {
    for (const Parameter& parameter : row.parameters) {
      if (parameter.word == nullptr) continue;
      const auto& offered = combinations().offered;
      EXPECT_TRUE(std::any_of(offered.begin(), offered.end(), [&](const OfferedOption& each) {
        return each.option == Choices{parameter.name, parameter.choices} &&
               std::count(each.methods.begin(), each.methods.end(), row.name) == 1;
      })) << row.name << " " << parameter.name;
    }
  }
}

}  // namespace
}  // namespace laconic::test
