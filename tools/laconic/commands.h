#pragma once

#include <CLI/CLI.hpp>

namespace laconic::tools {

// One file a subcommand: each adds itself to the program and sets what runs when it is chosen.

void add_info(CLI::App& program);
void add_bench(CLI::App& program);
void add_methods(CLI::App& program);
void add_problems(CLI::App& program);
void add_data(CLI::App& program);
void add_train(CLI::App& program);
void add_compare(CLI::App& program);
void add_reproduce(CLI::App& program);
void add_report(CLI::App& program);
void add_diagnose(CLI::App& program);

}  // namespace laconic::tools
