#include "claims/networks/checks.h"

#include <algorithm>
#include <cmath>

#include "claims/tools.h"

namespace laconic::claims {
namespace {

using Names = std::vector<const char*>;

/// "91.1, 90.3".
std::string accuracies(const Figures& figures, const Names& names) {
  std::string text;
  for (const char* name : names) append(text, ", ", fixed(figures.accuracy(name), 1));
  return text;
}

std::string or_dash(double value, int decimals) { return std::isnan(value) ? "-" : fixed(value, decimals); }

/// A row a run: its mean, the independent figure, and each seed's.
void add_rows(ClaimOutcome& outcome, const Figures& figures, const Names& names) {
  outcome.columns = {"run", "accuracy", "independent", "bits", "rounds", "seeds"};
  for (const char* name : names) {
    std::string seeds;
    for (const NetworkResult* result : figures.of(name)) append(seeds, " ", fixed(result->accuracy, 1));
    outcome.rows.push_back({name, fixed(figures.accuracy(name), 1), or_dash(run_named(name).independent.end, 1),
                            figures.bits(name) > 0.0 ? fixed(figures.bits(name), 2) : "-",
                            figures.rounds(name) > 0.0 ? fixed(figures.rounds(name), 0) : "-", seeds});
  }
}

}  // namespace

ClaimOutcome def_divergence(const Figures& figures) {
  const Names ef{"ef-16", "ef-64", "ef-256"};
  const Names def{"def-64", "def-256", "def-1024"};
  const double allowed[] = {2.0, 3.0, 8.0};
  ClaimOutcome outcome;
  outcome.measured =
      "SGD " + accuracies(figures, {"sgd"}) + "; EF " + accuracies(figures, ef) + "; DEF " + accuracies(figures, def);
  outcome.holds = std::all_of(ef.begin(), ef.end(), [&](const char* name) { return figures.accuracy(name) < 20.0; });
  for (std::size_t i = 0; i < def.size(); ++i) {
    outcome.holds = outcome.holds && figures.accuracy("sgd") - figures.accuracy(def[i]) <= allowed[i];
  }
  add_rows(outcome, figures, {"sgd", "ef-16", "ef-64", "ef-256", "def-64", "def-256", "def-1024", "def-a-256"});
  return outcome;
}

ClaimOutcome def_a_early(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.columns = {"steps", "DEF", "DEF-A", "lead", "independent lead"};
  const Independent& def = run_named("def-64").independent;
  const Independent& def_a = run_named("def-a-64").independent;
  struct Time {
    const char* name;
    double share;
    double independent;
  };
  const Time times[] = {{"1/6", 1.0 / 6.0, def_a.first_sixth - def.first_sixth},
                        {"1/3", 1.0 / 3.0, def_a.first_third - def.first_third},
                        {"1/2", 0.5, def_a.half - def.half},
                        {"end", 1.0, def_a.end - def.end}};
  double early = 0.0;
  double last = 0.0;
  for (const Time& time : times) {
    const double left = figures.accuracy("def-64", time.share);
    const double right = figures.accuracy("def-a-64", time.share);
    last = right - left;
    if (time.share < 1.0) early += last / 3.0;
    append(outcome.measured, ", ", fixed(last, 1));
    outcome.rows.push_back({time.name, fixed(left, 1), fixed(right, 1), fixed(last, 1), fixed(time.independent, 1)});
  }
  outcome.measured = "DEF-A leads by " + outcome.measured + " points after 1/6, 1/3, 1/2 and all of the steps";
  outcome.holds = early >= 0.5 && std::abs(last) <= 1.0;
  return outcome;
}

ClaimOutcome grawa_rounds(const Figures& figures) {
  ClaimOutcome outcome;
  const Names own[] = {{"mgrawa-16", "lgrawa-16"}, {"mgrawa-32", "lgrawa-32"}};
  const Names others[] = {{"easgd-8", "lsgd-8"}, {"easgd-16", "lsgd-16"}};
  outcome.holds = true;
  for (int i = 0; i < 2; ++i) {
    for (const char* name : own[i]) {
      for (const char* other : others[i]) {
        outcome.holds = outcome.holds && figures.accuracy(name) > figures.accuracy(other) &&
                        figures.rounds(name) <= figures.rounds(other) / 2.0 + 1.0;
      }
    }
    outcome.measured += std::string(i == 0 ? "" : "; ") + "MGRAWA, LGRAWA " + accuracies(figures, own[i]) + " in " +
                        fixed(figures.rounds(own[i][0]), 0) + " rounds, EASGD, LSGD " + accuracies(figures, others[i]) +
                        " in " + fixed(figures.rounds(others[i][0]), 0);
  }
  add_rows(outcome, figures,
           {"mgrawa-16", "lgrawa-16", "easgd-8", "lsgd-8", "mgrawa-32", "lgrawa-32", "easgd-16", "lsgd-16"});
  return outcome;
}

ClaimOutcome grawa_flatness(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.columns = {"run", "trace", "error", "largest eigenvalue", "accuracy"};
  for (const char* name : {"sgd", "easgd-8", "lsgd-8", "mgrawa-16", "lgrawa-16"}) {
    double error = 0.0;
    const auto results = figures.of(name);
    for (const NetworkResult* result : results) error += result->flatness.trace_error * result->flatness.trace_error;
    outcome.measured +=
        (outcome.measured.empty() ? "trace: " : ", ") + std::string(name) + " " + fixed(figures.trace(name), 1);
    outcome.rows.push_back({name, fixed(figures.trace(name), 1),
                            fixed(std::sqrt(error) / static_cast<double>(results.size()), 1),
                            fixed(figures.largest(name), 2), fixed(figures.accuracy(name), 1)});
  }
  const double own = std::max(figures.trace("mgrawa-16"), figures.trace("lgrawa-16"));
  outcome.holds = own < figures.trace("sgd") && own < std::max(figures.trace("easgd-8"), figures.trace("lsgd-8"));
  return outcome;
}

ClaimOutcome grawa_crowded(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.columns = {"workers", "MGRAWA", "EASGD", "LSGD"};
  outcome.holds = true;
  for (const char* workers : {"4", "8", "16"}) {
    std::string ending;
    if (std::string(workers) != "8") ending.append("-").append(workers).append("-workers");
    const double own = figures.accuracy("mgrawa-16" + ending);
    const double easgd = figures.accuracy("easgd-8" + ending);
    const double lsgd = figures.accuracy("lsgd-8" + ending);
    outcome.holds = outcome.holds && own > easgd && own > lsgd;
    outcome.measured += (outcome.measured.empty() ? "W = " : "; W = ") + std::string(workers) + ": MGRAWA " +
                        fixed(own, 1) + ", EASGD " + fixed(easgd, 1) + ", LSGD " + fixed(lsgd, 1);
    outcome.rows.push_back({workers, fixed(own, 1), fixed(easgd, 1), fixed(lsgd, 1)});
  }
  return outcome;
}

namespace {

/// Accuracy of QSGD at a number of bits that need not be whole: on the line through its neighbours.
double qsgd_at(const Figures& figures, double bits) {
  const double low = bits < 5.0 ? 4.0 : 5.0;
  const double left = figures.accuracy(low == 4.0 ? "qsgd-4" : "qsgd-5");
  const double right = figures.accuracy(low == 4.0 ? "qsgd-5" : "qsgd-6");
  return left + (bits - low) * (right - left);
}

}  // namespace

ClaimOutcome dqsgd_bits(const Figures& figures) {
  ClaimOutcome outcome;
  double lead = 0.0;
  for (const char* name : {"dqsgd-workers-3", "dqsgd-workers-6"}) {
    const double above = figures.accuracy(name) - qsgd_at(figures, figures.bits(name));
    lead += above / 2.0;
    outcome.measured += std::string(outcome.measured.empty() ? "" : "; ") + name + " " +
                        fixed(figures.accuracy(name), 1) + " at " + fixed(figures.bits(name), 2) + " bits, " +
                        fixed(above, 1) + " above the line";
  }
  outcome.holds = lead >= 0.3;
  add_rows(
      outcome, figures,
      {"qsgd-4", "qsgd-5", "qsgd-6", "dqsgd-workers-3", "dqsgd-workers-6", "dqsgd-aggregate-6", "dqsgd-aggregate-12"});
  return outcome;
}

ClaimOutcome signum_adam(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.measured = "Signum " + accuracies(figures, {"signum-7"}) + ", Adam " + accuracies(figures, {"adam"});
  outcome.holds = std::abs(figures.accuracy("signum-7") - figures.accuracy("adam")) <= 1.0;
  add_rows(outcome, figures, {"signum-7", "signum-8", "adam", "sgd"});
  return outcome;
}

ClaimOutcome sign_adversaries(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.measured = "none inverting " + accuracies(figures, {"signum-7"}) + ", 2 of 7 " +
                     accuracies(figures, {"signum-7-2-inverting"}) + ", 3 of 7 " +
                     accuracies(figures, {"signum-7-3-inverting"});
  outcome.holds = figures.accuracy("signum-7-2-inverting") >= 85.0 && figures.accuracy("signum-7-3-inverting") >= 80.0;
  add_rows(outcome, figures, {"signum-7", "signum-7-2-inverting", "signum-7-3-inverting"});
  return outcome;
}

ClaimOutcome sign_ties(const Figures& figures) {
  ClaimOutcome outcome;
  outcome.measured = "W = 4: plus " + accuracies(figures, {"signum-4-plus"}) + ", random " +
                     accuracies(figures, {"signum-4"}) + "; W = 8: " + accuracies(figures, {"signum-8-plus"}) + ", " +
                     accuracies(figures, {"signum-8"});
  outcome.holds = figures.accuracy("signum-4") - figures.accuracy("signum-4-plus") >= 0.5 &&
                  figures.accuracy("signum-8") - figures.accuracy("signum-8-plus") >= 0.5;
  add_rows(outcome, figures, {"signum-4", "signum-4-plus", "signum-8", "signum-8-plus"});
  return outcome;
}

ClaimOutcome regtopk(const Figures& figures) {
  struct Kept {
    const char* percent;
    bool decides;
  };
  ClaimOutcome outcome;
  double lead = 0.0;
  for (const auto& [keep, decides] : {Kept{"1", false}, Kept{"0.1", true}, Kept{"0.02", false}}) {
    const std::string name = std::string("topk-") + keep;
    lead = figures.accuracy("reg" + name) - figures.accuracy(name);
    if (decides) outcome.holds = lead >= 1.0;
    outcome.measured +=
        (outcome.measured.empty() ? "RegTop-k less Top-k at S = " : ", ") + std::string(keep) + " %: " + fixed(lead, 1);
  }
  add_rows(outcome, figures, {"topk-1", "regtopk-1", "topk-0.1", "regtopk-0.1", "topk-0.02", "regtopk-0.02"});
  return outcome;
}

namespace {

/// How far above Adam's validation loss a run of the language model ends.
double above_adam(const Figures& figures, const char* name) { return figures.loss(name) - figures.loss("gpt-adam"); }

/// Losses with three decimals, and a row a run: its mean, its perplexity, its bytes, and each seed's loss.
ClaimOutcome language_outcome(const Figures& figures, const Names& names) {
  ClaimOutcome outcome;
  outcome.columns = {"run", "loss", "perplexity", "above Adam", "bytes per step", "seeds"};
  for (const char* name : names) {
    std::string seeds;
    for (const NetworkResult* result : figures.of(name)) append(seeds, " ", fixed(result->loss, 3));
    append(outcome.measured, ", ", std::string(name) + " " + fixed(figures.loss(name), 3));
    outcome.rows.push_back({name, fixed(figures.loss(name), 3), fixed(std::exp(figures.loss(name)), 2),
                            fixed(above_adam(figures, name), 3), fixed(figures.bytes(name), 0), seeds});
  }
  return outcome;
}

}  // namespace

ClaimOutcome signum_gpt(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-signum"});
  outcome.holds = above_adam(figures, "gpt-signum") <= 0.02;
  return outcome;
}

ClaimOutcome signum_turns_gpt(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-signum", "gpt-signum-turns-4"});
  outcome.holds = above_adam(figures, "gpt-signum-turns-4") <= 0.05 &&
                  figures.bytes("gpt-signum-turns-4") <= figures.bytes("gpt-adam") / 100.0;
  return outcome;
}

ClaimOutcome topk_adam_fails(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-topk-1"});
  outcome.holds = above_adam(figures, "gpt-topk-1") >= 0.1;
  return outcome;
}

ClaimOutcome chunk_quant_gpt(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-block-quant-4", "gpt-qsgd-6"});
  outcome.holds = above_adam(figures, "gpt-block-quant-4") <= 0.02 && above_adam(figures, "gpt-qsgd-6") >= 0.05;
  return outcome;
}

ClaimOutcome def_topk_gpt(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-def-topk-2", "gpt-topk-1"});
  outcome.holds = figures.loss("gpt-def-topk-2") <= figures.loss("gpt-topk-1") - 0.05 &&
                  figures.bytes("gpt-def-topk-2") < figures.bytes("gpt-topk-1");
  return outcome;
}

ClaimOutcome diloco_gpt(const Figures& figures) {
  ClaimOutcome outcome = language_outcome(figures, {"gpt-adam", "gpt-diloco-32", "gpt-def-topk-0.2"});
  outcome.holds = figures.loss("gpt-def-topk-0.2") <= figures.loss("gpt-diloco-32") + 0.05 &&
                  figures.bytes("gpt-def-topk-0.2") <= figures.bytes("gpt-diloco-32") / 10.0;
  return outcome;
}

}  // namespace laconic::claims
