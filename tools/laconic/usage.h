#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

// How the program tells people what it takes and what was wrong.

namespace laconic::tools {

/// For options: a whole number in low..high; the refusal names both and what was given.
CLI::Validator whole_in(std::uint64_t low, std::uint64_t high);

/// Help in lines that fit a page, with one spelling of each flag.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// What is wrong with a call that did not parse, in a line, with what was probably meant.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error);

/// The library's message with the flags of this program where it speaks of settings.
std::string with_flags(std::string message);

}  // namespace laconic::tools
