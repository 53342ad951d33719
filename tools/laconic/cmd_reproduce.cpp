#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "bench/progress.h"
#include "claims_output.h"
#include "commands.h"
#include "deep.h"
#include "usage.h"

namespace laconic::tools {
namespace {

/// `title` says which claim of how many; on a terminal its line shows what share of the claim's runs is done.
CheckedClaim check_showing_progress(const Claim& claim, int seeds, const std::string& title) {
  const bench::Progress progress(true);
  const auto begun = std::chrono::steady_clock::now();
  int shown = -1;
  const auto show = [&](double share) {
    const int percent = static_cast<int>(100.0 * share);
    if (std::exchange(shown, percent) == percent) return;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    progress.say(fmt::format("{}: {} %, {:.0f} s", title, percent, seconds.count()));
  };
  show(0.0);
  return check_claim(claim, {.seeds = seeds, .progress = show});
}

void reproduce(ClaimFlags& flags, const DeepFlags& deep) {
  const Subject subject = deep.deep ? Subject::networks : Subject::problems;
  const auto require_claim = [subject](const std::string& name) { claim_named(name, subject); };
  if (std::string name = flags.json.give_name_back(require_claim); !name.empty()) {
    flags.names.push_back(std::move(name));
  }
  deep.require_used();
  if (deep.deep) return reproduce_deep(deep, flags);
  const auto claims = chosen_claims(flags, subject);
  flags.json.require_writable();
  if (flags.list) return show_list(claims, flags.json);
  std::vector<CheckedClaim> all;
  for (const Claim* claim : claims) {
    const std::string title = fmt::format("{} ({} of {})", claim->name, all.size() + 1, claims.size());
    all.push_back(check_showing_progress(*claim, flags.seeds, title));
    show_claim(all.back(), flags.json);
  }
  show_verdicts(all, flags.json);
}

}  // namespace

std::vector<const Claim*> chosen_claims(const ClaimFlags& flags, Subject subject) {
  std::vector<const Claim*> claims;
  for (const std::string& name : without_repeats(flags.names)) claims.push_back(&claim_named(name, subject));
  if (claims.empty()) {
    for (const Claim& claim : claims_on(subject)) claims.push_back(&claim);
  }
  return claims;
}

void add_reproduce(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("reproduce", "Repeats the papers' experiments: their figures, ours, and a verdict");
  auto flags = std::make_shared<ClaimFlags>();
  auto deep = std::make_shared<DeepFlags>();
  command->add_option("claims", flags->names, "which claims; none: all");
  flags->json.add_to(*command, "the claims");
  command->add_flag("--list", flags->list, "only list the claims");
  command
      ->add_option(
          "--seeds", flags->seeds,
          "number of runs for the median (with --deep: for the mean); default: the claim's own number (--list), with "
          "--deep 2. A claim without random draws runs once")
      ->check(whole_in(1, 1000))
      ->option_text("NUMBER");
  deep->add_to(*command);
  command->footer(
      "Examples:\n"
      "  laconic reproduce --list\n"
      "  laconic reproduce regtopk-toy sign-ties\n"
      "  laconic reproduce --json > claims.json\n"
      "  laconic reproduce --deep def-divergence --steps 600 --seeds 1 --data ~/data\n"
      "All claims except the deep ones take about 220 s of processor time, divided among the cores.\n"
      "A FILE for --json must have a dot or a slash in its name.\n"
      "The exit code is 0 if every claim holds, 1 if one does not, 2 for a wrong call.");
  command->callback([flags, deep] { reproduce(*flags, *deep); });
}

}  // namespace laconic::tools
