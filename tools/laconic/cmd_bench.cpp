#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "bench/report.h"
#include "commands.h"
#include "json_output.h"
#include "laconic/threads.h"
#include "usage.h"

namespace laconic::tools {
namespace {

struct KernelArguments {
  bench::KernelOptions options;
  bool no_torch = false;
  JsonOutput json;
};

struct ExchangeArguments {
  bench::ExchangeOptions options;
  JsonOutput json;
};

struct MethodArguments {
  bench::MethodBenchOptions options;
  JsonOutput json;
};

void run_kernels(KernelArguments& arguments) {
  arguments.options.show_progress = true;
  arguments.options.compare_torch = !arguments.no_torch;
  arguments.json.require_writable();
  const bool text = !arguments.json.on_stdout();
  bool first = true;
  const auto results = bench::bench_kernels(arguments.options, [&](const auto& result) {
    if (!text) return;
    if (std::exchange(first, false)) std::cout << bench::kernel_header(result);
    std::cout << bench::kernel_line(result) << std::flush;
  });
  if (text) std::cout << '\n' << bench::kernel_legend();
  arguments.json.write(bench::kernels_json(results));
}

void run_exchanges(ExchangeArguments& arguments) {
  arguments.options.show_progress = true;
  arguments.json.require_writable();
  const bool text = !arguments.json.on_stdout();
  bool first = true;
  const auto results = bench::bench_exchanges(arguments.options, [&](const auto& result) {
    if (!text) return;
    if (std::exchange(first, false)) std::cout << bench::exchange_header();
    std::cout << bench::exchange_line(result) << std::flush;
  });
  if (text) std::cout << '\n' << bench::exchange_legend();
  arguments.json.write(bench::exchanges_json(results));
}

void run_methods(MethodArguments& arguments) {
  arguments.options.show_progress = true;
  arguments.json.require_writable();
  const bool text = !arguments.json.on_stdout();
  bool first = true;
  const auto results = bench::bench_methods(arguments.options, [&](const auto& result) {
    if (!text) return;
    if (std::exchange(first, false)) std::cout << bench::method_header();
    std::cout << bench::method_line(result) << std::flush;
  });
  if (text) std::cout << '\n' << bench::method_legend();
  arguments.json.write(bench::methods_json(results));
}

void add_kernels(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("kernels", "Times each kernel beside a memory stream of the same bytes");
  auto arguments = std::make_shared<KernelArguments>();
  auto& options = arguments->options;
  command->add_option("--n", options.n, "values in a gradient; default " + std::to_string(options.n))
      ->check(whole_in(1, 1ULL << 32))
      ->option_text("NUMBER");
  command
      ->add_option("--threads", options.threads,
                   "threads of the kernels, 0.." + std::to_string(kMostThreads) + "; default 0: one per core")
      ->check(whole_in(0, kMostThreads))
      ->option_text("NUMBER");
  command
      ->add_option("--repeats", options.repeats,
                   "timed runs of each kernel; the median is reported; default " + std::to_string(options.repeats))
      ->check(whole_in(1, 10000))
      ->option_text("NUMBER");
  command->add_option("--filter", options.filter, "only kernels whose name contains WORD[,WORD...]")
      ->option_text("WORDS");
  command->add_flag("--no-torch", arguments->no_torch, "leave out the comparison with PyTorch");
  arguments->json.add_to(*command, "the results");
  command->footer(
      "Examples:\n"
      "  laconic bench kernels --filter topk,vote       a few of them\n"
      "  LACONIC_SIMD=reference laconic bench kernels --n 1000000 --threads 1\n"
      "Each kernel's result is compared with the reference before it is timed. docs/benchmarks.md describes what each\n"
      "stream moves and how the times are measured.");
  command->callback([arguments] { run_kernels(*arguments); });
}

void add_exchange(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("exchange", "Counts what each rank sends in each exchange");
  auto arguments = std::make_shared<ExchangeArguments>();
  auto& options = arguments->options;
  command->add_option("--n", options.n, "values in a gradient; default " + std::to_string(options.n))
      ->check(whole_in(1, (1ULL << 32) - 1))
      ->option_text("NUMBER");
  command->add_option("--workers", options.workers, "numbers of ranks; each rank is a thread; default 2,4,8,16,32")
      ->delimiter(',')
      ->check(whole_in(1, kMostRanks))
      ->option_text("NUMBER[,NUMBER...]");
  command->add_option("--filter", options.filter, "only exchanges whose name contains WORD[,WORD...]")
      ->option_text("WORDS");
  arguments->json.add_to(*command, "the results");
  command->footer(
      "Examples:\n"
      "  laconic bench exchange --n 1000000 --workers 2,4,8\n"
      "  laconic bench exchange --filter sparse --json sent.json\n"
      "Every result is checked, and all ranks must end with the same bits.");
  command->callback([arguments] { run_exchanges(*arguments); });
}

void add_methods_bench(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("methods", "Times a method's step beside its kernels and exchange alone");
  auto arguments = std::make_shared<MethodArguments>();
  auto& options = arguments->options;
  command->add_option("--n", options.n, "parameters; default " + std::to_string(options.n))
      ->check(whole_in(1, (1ULL << 32) - 1))
      ->option_text("NUMBER");
  command
      ->add_option("--workers", options.workers,
                   "ranks, 1..64, each a thread of this process; default " + std::to_string(options.workers))
      ->check(whole_in(1, 64))
      ->option_text("NUMBER");
  command
      ->add_option("--repeats", options.repeats,
                   "timed runs of two steps per side; medians are reported; default " + std::to_string(options.repeats))
      ->check(whole_in(1, 10000))
      ->option_text("NUMBER");
  command->add_option("--filter", options.filter, "only methods whose name contains WORD[,WORD...]")
      ->option_text("WORDS");
  arguments->json.add_to(*command, "the results");
  command->footer(
      "Examples:\n"
      "  laconic bench methods --filter topk,def\n"
      "  laconic bench methods --n 1000000 --workers 1 --json overhead.json\n"
      "The method and its bare kernels and exchange must give the same bits after every step.");
  command->callback([arguments] { run_methods(*arguments); });
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench", "Measures kernels, exchanges and the overhead of methods");
  command->footer(
      "Examples:\n  laconic bench kernels --help\n  laconic bench exchange --help\n  laconic bench methods --help");
  add_kernels(*command);
  add_exchange(*command);
  add_methods_bench(*command);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("What to measure, kernels, exchange or methods,");
  });
}

}  // namespace laconic::tools
