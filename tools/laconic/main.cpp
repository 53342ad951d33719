#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "commands.h"
#include "laconic/error.h"
#include "laconic/version.h"
#include "methods/table.h"

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

/// One line, whatever was thrown.
int complain(std::string message, int code) {
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  std::cerr << "laconic: " << message << '\n';
  return code;
}

/// "; did you mean --keep?" for a flag that the command does not have.
std::string suggestion(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& argument : program.remaining(true)) {
    if (argument.starts_with("--")) {
      return "; did you mean " + laconic::nearest_name(argument.substr(0, argument.find('=')), names) + "?";
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"Laconic: distributed training that says less and learns the same."};
  program.name("laconic");
  program.set_version_flag("--version", std::string("laconic ") + laconic::kVersion);
  program.footer(
      "Examples:\n"
      "  laconic info                                   what this machine and this build can do\n"
      "  laconic methods                                the table of methods, with their parameters\n"
      "  laconic train --problem linear-regression --method regtopk --keep 0.6\n"
      "  laconic compare --problem logistic-regression --steps 200\n"
      "  laconic reproduce                              what the papers say, run again\n"
      "  laconic report runs/sgd runs/topk              a page with charts from what train --out wrote\n"
      "  laconic bench kernels                          every kernel beside a memory stream and PyTorch\n"
      "  laconic bench kernels --filter topk --n 1000000\n"
      "  laconic bench exchange --workers 2,4,8 --json sent.json\n"
      "\nlaconic COMMAND --help says more about a command.");
  laconic::tools::add_info(program);
  laconic::tools::add_bench(program);
  laconic::tools::add_methods(program);
  laconic::tools::add_problems(program);
  laconic::tools::add_train(program);
  laconic::tools::add_compare(program);
  laconic::tools::add_reproduce(program);
  laconic::tools::add_report(program);
  try {
    program.parse(argc, argv);
    if (program.get_subcommands().empty()) throw CLI::RequiredError("A command, such as info or bench,");
  } catch (const CLI::ExtrasError& error) {
    return complain(error.what() + suggestion(program) + " (laconic --help shows how it is used)", kUsage);
  } catch (const CLI::ParseError& error) {
    // --help and --version come here too, with exit code 0.
    if (error.get_exit_code() == 0) return program.exit(error);
    return complain(std::string(error.what()) + " (laconic --help shows how it is used)", kUsage);
  } catch (const laconic::InvalidConfig& error) {
    return complain(error.what(), kUsage);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailure);
  }
  return 0;
}
