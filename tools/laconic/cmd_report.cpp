#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "base/printable.h"
#include "commands.h"
#include "output_file.h"
#include "records/report.h"
#include "report/page.h"
#include "text_table.h"

namespace laconic::tools {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string out = "report.html";
};

void report(const Arguments& arguments) {
  if (!report_is_built_in()) report_page("");  // says what to install, before anything is read
  require_writable(arguments.out);
  const auto runs = read_runs(arguments.runs);
  const auto labels = run_labels(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& note : runs[i].notes)
      std::cout << printable(fmt::format("{} ({}): {}", labels[i], runs[i].folder, note)) << '\n';
  }
  const std::string page = report_page(report_json(runs));
  write_file(arguments.out, page);
  std::cout << fmt::format("{}: {} run{}, {}\n", arguments.out, runs.size(), runs.size() == 1 ? "" : "s",
                           bytes_text(static_cast<double>(page.size())));
}

}  // namespace

void add_report(CLI::App& program) {
  CLI::App* command = program.add_subcommand("report", "Makes a page with charts of runs");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("runs", arguments->runs, "folders that train --out made, or folders of such folders")
      ->option_text("RUN...")
      ->required();
  command->add_option("--out", arguments->out, "the page, a single file that works offline; default report.html")
      ->option_text("FILE");
  command->footer(
      "Example:\n"
      "  laconic train --problem linear-regression --method sgd --out runs/sgd\n"
      "  laconic train --problem linear-regression --method topk --out runs/topk\n"
      "  laconic report runs --out report.html\n"
      "A run that has not finished is drawn as far as it got.");
  command->callback([arguments] { report(*arguments); });
}

}  // namespace laconic::tools
