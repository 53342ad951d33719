#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// How the program tells people what it takes and what was wrong.

namespace laconic::tools {

/// For options: a whole number in low..high; the refusal names both and what was given.
CLI::Validator whole_in(std::uint64_t low, std::uint64_t high);

/// For options: a number of 0 or more that is finite.
CLI::Validator finite_from_zero();

/// Makes every option of the command, and of its commands, refuse an empty value, which would pass for the default.
void refuse_empty_values(CLI::App& command);

/// Help in lines that fit a page, with one spelling of each flag.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Names in their order, each once: who names a thing twice wants it once.
std::vector<std::string> without_repeats(const std::vector<std::string>& names);

/// The names in a list with commas, each once. InvalidConfig if one is missing beside a comma.
std::vector<std::string> names_in(const std::string& list, const std::string& flag);

/// What is wrong with a call that did not parse, in a line, with what was probably meant. `last`: the call's last word.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error, const std::string& last);

// Exit codes.
constexpr int kFailure = 1;
constexpr int kUsage = 2;

/// The message in one line, with the program's name before it.
std::string complaint(std::string message);

/// kUsage for a setting that is wrong; a number that is not finite is none.
int exit_code(const std::exception& error);

}  // namespace laconic::tools
