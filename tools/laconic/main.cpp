#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "commands.h"
#include "laconic/error.h"
#include "laconic/version.h"

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
  try {
    program.parse(argc, argv);
    if (program.get_subcommands().empty()) throw CLI::RequiredError("A command, such as info or bench,");
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
