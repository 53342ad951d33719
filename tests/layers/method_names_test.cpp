// Only the table of methods knows methods by name: what another file needs to know of a method is a trait of its row.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "methods/table.h"
#include "support/text_of_file.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed_right(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::string_view trimmed_left(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  return text;
}

bool is_comparison(std::string_view two) { return two == "==" || two == "!="; }

/// `name == "topk"`, `name != std::string("topk")`, `names.contains("topk")`, `case "topk":`.
bool is_compared_before(std::string_view before) {
  for (const std::string_view wrapper : {"string(", "string_view(", "string{", "string_view{"}) {
    if (!before.ends_with(wrapper)) continue;
    before.remove_suffix(wrapper.size());
    if (before.ends_with("std::")) before.remove_suffix(5);
    break;
  }
  before = trimmed_right(before);
  if (before.size() >= 2 && is_comparison(before.substr(before.size() - 2))) return true;
  constexpr std::array<std::string_view, 7> kQuestions{".contains(",    ".count(",      ".find(", ".compare(",
                                                       ".starts_with(", ".startswith(", " case"};
  return std::any_of(kQuestions.begin(), kQuestions.end(), [&](auto each) { return before.ends_with(each); });
}

/// `"topk" == name`, `std::string("topk") == name`.
bool is_compared_after(std::string_view after) {
  if (after.starts_with("s") && !after.starts_with("sv")) after.remove_prefix(1);
  if (after.starts_with("sv")) after.remove_prefix(2);
  if (after.starts_with(")") || after.starts_with("}")) after.remove_prefix(1);
  return is_comparison(trimmed_left(after).substr(0, 2));
}

/// One of several names in brackets: `in ("topk", "randk")`; in the package also `NAMES = ("topk", "randk")` and
/// `SIZES = {"topk": 1}`, which are there to be looked up.
bool is_in_collection(std::string_view before, bool in_package) {
  const std::size_t bracket = before.find_last_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-,:\"' \n");
  if (bracket == std::string_view::npos || std::strchr("([{", before[bracket]) == nullptr) return false;
  before = trimmed_right(before.substr(0, bracket));
  return before.ends_with(" in") || (in_package && before.ends_with(" ="));
}

/// Lines of `text`, from 1, that compare a method's name.
std::vector<std::size_t> lines_that_compare(std::string_view text, bool in_package) {
  std::vector<std::size_t> lines;
  for (const MethodRow& row : method_table()) {
    for (const char quote : {'"', '\''}) {
      const std::string literal = quote + std::string(row.name) + quote;
      for (std::size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + 1)) {
        const std::string_view before = text.substr(0, at);
        if (!is_compared_before(before) && !is_compared_after(text.substr(at + literal.size())) &&
            !is_in_collection(before, in_package)) {
          continue;
        }
        lines.push_back(1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')));
      }
    }
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

bool is_scanned(const fs::path& file) {
  static const std::vector<std::string> endings{".h", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".js", ""};
  return std::find(endings.begin(), endings.end(), file.extension().string()) != endings.end();
}

TEST(MethodNames, AreComparedInTheTableAlone) {
  const fs::path root = LACONIC_ROOT;
  std::size_t files = 0;
  for (const char* top : {"include", "src", "bench", "tools", "fuzz", "python", "examples", "scripts"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_scanned(entry.path())) continue;
      const std::string name = entry.path().lexically_relative(root).generic_string();
      if (name == "src/methods/table.cpp") continue;
      const std::string text = test::text_of_file(entry.path());
      ++files;
      for (const std::size_t line : lines_that_compare(text, name.starts_with("python/laconic/"))) {
        ADD_FAILURE() << name << ':' << line << ": compares a method's name; give its row a trait (methods/table.h)";
      }
    }
  }
  EXPECT_GT(files, 300U) << "the folders are not where this test looks for them";
}

TEST(MethodNames, AreFoundHoweverTheyAreCompared) {
  for (const char* text :
       {"if (config.method == \"adam\") {", "return name_ != \"easgd\";", "std::string_view(entry.name) == \"fp16\"",
        "if (row.name == std::string(\"adam\"))", "line.method ==\n    std::string_view(\"def-a\")", "\"def\" == name",
        "std::string(\"def\") != name", "set.contains(\"topk\")", "if method in (\"ef-rbgs\", \"def\"):",
        "if method in {'mgrawa'}:", "    case \"lsgd\":"}) {
    EXPECT_EQ(lines_that_compare(text, false).size(), 1U) << text;
  }
  for (const char* text : {"GRAWA_METHODS = (\"mgrawa\", \"lgrawa\")", "MIN_SIZE = {\"qsgd\": 10_000}"}) {
    EXPECT_EQ(lines_that_compare(text, true).size(), 1U) << text;
  }
  for (const char* text :
       {"std::string method = \"sgd\";", "make_method(\"topk\", options)", "attach(ddp, \"regtopk\", keep=0.01)",
        "options.name == \"topk-1\"", "{\"sgd\", \"adam\", \"host\"}", "Optimizer(inner, model, method=\"def-a\")"}) {
    EXPECT_TRUE(lines_that_compare(text, true).empty()) << text;
  }
}

}  // namespace
}  // namespace laconic
