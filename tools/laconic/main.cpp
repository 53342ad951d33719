#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "base/memory.h"
#include "commands.h"
#include "laconic/version.h"
#include "usage.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

/// One line, whatever was thrown.
int complain(const std::string& message, int code) {
  std::cerr << laconic::tools::complaint(message) << '\n';
  return code;
}

/// A network's activations are taken and freed in every step. By default glibc gives blocks of that size back to the
/// kernel each time, and a worker's next step faults its pages in again, a thread at a time: a tenth of a step's
/// processor time with four workers. What was freed stays with the process instead.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 26);
#endif
}

/// What was printed may still lie in memory, and a full disk shows when it is written.
int flushed(int code) {
  std::cout.flush();
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (whole || code != 0) return code;
  return complain("cannot write all of the output to stdout: is the disk full?", laconic::tools::kFailure);
}

int run(int argc, char** argv) {
  keep_freed_memory();
  CLI::App program{"Laconic: distributed training that sends less and learns the same."};
  program.name("laconic");
  program.formatter(laconic::tools::help_formatter());
  program.set_version_flag("--version", std::string("laconic ") + laconic::kVersion);
  program.footer(
      "Examples:\n"
      "  laconic info                                   what this machine and this build can do\n"
      "  laconic methods                                the table of methods, with their parameters\n"
      "  laconic methods regtopk                        one method's page\n"
      "  laconic train --problem linear-regression --method regtopk --keep 0.6\n"
      "  laconic compare --problem logistic-regression --steps 200\n"
      "  laconic reproduce                              the papers' experiments, repeated\n"
      "  laconic report runs/sgd runs/topk              a page with charts of the runs that train --out wrote\n"
      "  laconic diagnose --task digits                 which method suits: gradients, noise, flatness\n"
      "  laconic bench kernels                          every kernel compared with a memory stream and PyTorch\n"
      "\nlaconic COMMAND --help explains a command. In every command --json prints JSON instead of text, and\n"
      "--json FILE writes JSON into a file in addition to the text.\n"
      "Exit codes: 0 success; 1 failure (a file, a rank, a NaN, a claim that does not hold); 2 a wrong call.");
  laconic::tools::add_info(program);
  laconic::tools::add_bench(program);
  laconic::tools::add_methods(program);
  laconic::tools::add_problems(program);
  laconic::tools::add_data(program);
  laconic::tools::add_train(program);
  laconic::tools::add_compare(program);
  laconic::tools::add_reproduce(program);
  laconic::tools::add_report(program);
  laconic::tools::add_diagnose(program);
  laconic::tools::refuse_empty_values(program);
  try {
    program.parse(argc, argv);
    if (program.get_subcommands().empty()) std::cout << program.help();  // nothing asked: what could be
  } catch (const CLI::ParseError& error) {
    // --help and --version come here too, with exit code 0.
    if (error.get_exit_code() == 0) return program.exit(error);
    return complain(laconic::tools::usage_error(program, error, argv[argc - 1]), laconic::tools::kUsage);
  } catch (const std::exception& error) {
    return complain(laconic::error_text(error), laconic::tools::exit_code(error));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return flushed(run(argc, argv)); }
