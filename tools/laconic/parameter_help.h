#pragma once

#include <string>

#include "methods/table.h"

// What the table of methods says of a parameter, for flags that several methods share and for a method's own page.

namespace laconic::tools {

/// Range, meaning, default and whose it is, of every method in the table that has it: "(0, 1]: share of the entries
/// that is sent; default 0.01; of topk, regtopk, randk". Where methods differ, what holds for each of them.
std::string parameter_help(const std::string& name);

/// The default as a table shows it; "-" for none, or one that is derived from the run.
std::string default_text(const Parameter& parameter);

/// A call that trains with the method, with one of its parameters where it has a number to turn.
std::string example_call(const MethodRow& row);

}  // namespace laconic::tools
