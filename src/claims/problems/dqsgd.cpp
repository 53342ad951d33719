// DQ-SGD (Yan, Huang, Lan, Song 2021), strongly convex rule: bits for the error that every fixed width reaches.

#include <algorithm>
#include <cmath>

#include "claims/problems/checks.h"
#include "claims/tools.h"

namespace laconic::claims {
namespace {

constexpr std::uint32_t kSteps = 500;

/// Bits that a worker sends, by the page's count; and the loss above the optimum's, mean over the last tenth of the
/// steps. The model is one scope: d·B + 32 a step, and the 32 are the norm that DQ-SGD's rule goes by as well. Its
/// first step gathers that norm beforehand: 32 more.
class Ledger : public Observer {
 public:
  Ledger(const Problem& problem, bool dynamic)
      : parameters_(static_cast<double>(problem.parameters())), bits_(dynamic ? 32.0 : 0.0) {
    const std::vector<float> best(problem.optimum().begin(), problem.optimum().end());
    least_ = problem.loss(best);
  }

  void on_step(const StepRecord& record) override {
    bits_ += record.report.bits * parameters_ + 32.0;
    if (record.step > kSteps - kSteps / 10) error_ += (record.loss.value() - least_) / (kSteps / 10);
  }

  double bits() const { return bits_; }
  double error() const { return error_; }

 private:
  double parameters_;
  double least_ = 0.0;
  double bits_;
  double error_ = 0.0;
};

struct Line {
  std::string name;
  const char* method;
  bool dynamic;  ///< DQ-SGD, else a fixed number of bits
  MethodOptions options;
  double bits = 0.0;   ///< of a run, thousands
  double error = 0.0;  ///< above the optimum
};

std::vector<Line> lines() {
  std::vector<Line> all;
  for (int bits = 2; bits <= 8; ++bits) {
    MethodOptions options;
    options.bits = bits;
    options.scope = "model";
    all.push_back({"QSGD " + std::to_string(bits) + " bit", "qsgd", false, options});
  }
  for (const double budget : {100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4}) {
    MethodOptions options;
    options.rule = "convex";
    options.error_budget = budget;
    options.scope = "model";
    all.push_back({"DQ-SGD budget " + scientific(budget, 0), "dqsgd", true, options});
  }
  return all;
}

void measure(std::vector<Line>& all, const ClaimOptions& options) {
  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<double>> bits(all.size(), std::vector<double>(seeds));
  std::vector<std::vector<double>> errors = bits;
  side_by_side(all.size() * seeds, options, [&](std::size_t job) {
    const std::size_t which = job / seeds;
    const std::size_t seed = job % seeds;
    RunConfig config = default_config("logistic-regression");
    config.method = all[which].method;
    config.options = all[which].options;
    config.steps = kSteps;
    config.seed = seed + 1;
    const auto problem = make_problem(config.problem, {}, config.workers, config.seed);
    Ledger ledger(*problem, all[which].dynamic);
    run_in_turn(config, *problem, &ledger);
    bits[which][seed] = ledger.bits() / 1000.0;
    errors[which][seed] = ledger.error();
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].bits = median(bits[i]);
    all[i].error = median(errors[i]);
  }
}

/// Fewest bits with which a DQ-SGD run of the ladder ended at the error or below; infinite where none did.
double bits_for(double error, const std::vector<Line>& all) {
  double fewest = HUGE_VAL;
  for (const Line& line : all) {
    if (line.dynamic && line.error <= error) fewest = std::min(fewest, line.bits);
  }
  return fewest;
}

}  // namespace

ClaimOutcome dqsgd_convex(const ClaimOptions& options) {
  std::vector<Line> all = lines();
  measure(all, options);
  ClaimOutcome outcome;
  outcome.columns = {"method", "loss above the optimum", "kbit a worker", "DQ-SGD's kbit for it"};
  outcome.holds = true;
  for (const Line& line : all) {
    const double rival = line.dynamic ? 0.0 : bits_for(line.error, all);
    outcome.rows.push_back(
        {line.name, scientific(line.error), fixed(line.bits, 1), line.dynamic ? std::string() : fixed(rival, 1)});
    if (line.dynamic) continue;
    // Two bits are the least that the quantizer has: there is nothing below them to choose.
    if (line.options.bits == 2.0) continue;
    outcome.holds = outcome.holds && rival < line.bits;
    outcome.measured += (outcome.measured.empty() ? "kbit, DQ to fixed: " : ", ") + fixed(rival, 0) + " to " +
                        fixed(line.bits, 0) + " (" + fixed(line.options.bits.value(), 0) + " bit)";
  }
  return outcome;
}

}  // namespace laconic::claims
