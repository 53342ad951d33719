// Detached error feedback (Xu, Huang 2022): its two identities, step by step beside a float64 model, and a quadratic
// where error feedback with momentum diverges.

#include <algorithm>
#include <array>
#include <cmath>

#include "claims/problems/checks.h"
#include "claims/tools.h"
#include "laconic/error.h"
#include "transport/turns/run_ranks.h"

namespace laconic::claims {
namespace {

double wide(float value) { return static_cast<double>(value); }

std::unique_ptr<Problem> noisy_problem(int workers, std::uint64_t seed) {
  return make_problem("noisy-quadratic", {{"dimension", 96}, {"noise", 1}, {"noisy", 0}, {"offset", 1}, {"tensors", 3}},
                      workers, seed);
}

double largest(View<const float> values) {
  double most = 0.0;
  for (const float value : values) most = std::max(most, std::fabs(wide(value)));
  return most;
}

/// Furthest that DEF's y_t is from y_{t+1} = y_t − η·mean_k m_k, as a share of the largest entry of the start.
double virtual_deviation(double ratio, std::uint64_t seed) {
  constexpr int kWorkers = 4;
  constexpr std::uint32_t kSteps = 300;
  constexpr float kRate = 0.005F;
  constexpr double kMomentum = 0.9;
  const auto problem = noisy_problem(kWorkers, seed);
  const std::size_t n = problem->parameters();
  std::vector<std::vector<double>> momenta(kWorkers, std::vector<double>(n, 0.0));
  std::vector<double> expected(problem->start().begin(), problem->start().end());
  double furthest = 0.0;
  run_ranks_in_turn(kWorkers, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    Place place({.threads = 1});
    MethodOptions options;
    options.ratio = ratio;
    options.momentum = kMomentum;
    const auto method = make_model_method("def", options, {}, communicator, place);
    method->register_tensors(problem->tensors());
    std::vector<float> model = problem->start();
    std::vector<float> gradient(n);
    std::vector<float> tested(n);
    method->start(model);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      problem->gradient(communicator.rank(), step, model, gradient);
      for (std::size_t i = 0; i < n; ++i) momenta[rank][i] = kMomentum * momenta[rank][i] + wide(gradient[i]);
      const StepKey key{seed, step, static_cast<std::uint32_t>(rank)};
      method->step({.key = key, .learning_rate = kRate}, model, gradient);
      method->read_out(model, tested);
      if (rank == 0) {
        for (std::size_t i = 0; i < n; ++i) {
          double mean = 0.0;
          for (const auto& momentum : momenta) mean += momentum[i] / kWorkers;
          expected[i] -= wide(kRate) * mean;
          furthest = std::max(furthest, std::fabs(wide(tested[i]) - expected[i]));
        }
      }
      communicator.barrier().wait();  // nobody overwrites its momentum before rank 0 has read it
    }
  });
  return furthest / largest(problem->start());
}

constexpr std::uint32_t kInterpolationSteps = 1000;

struct InterpolationResult {
  double deviation = 0.0;  ///< of y from plain SGD, as a share of the largest entry of the start
  bool between = true;     ///< every entry of x is the old one or that of y
  double least = 1.0;      ///< of all entries, in what share of the steps it was y's
  double most = 0.0;
};

/// λ = 1, one worker: y = x − e beside plain SGD in float64, and x beside y.
InterpolationResult interpolate(double ratio, std::uint64_t seed) {
  constexpr float kRate = 0.02F;
  const auto problem = noisy_problem(1, seed);
  const std::size_t n = problem->parameters();
  InterpolationResult result;
  run_ranks_in_turn(1, [&](Communicator& communicator) {
    Place place({.threads = 1});
    MethodOptions options;
    options.ratio = ratio;
    options.lambda = 1.0;
    const auto reads_y = make_model_method("def", options, {}, communicator, place);
    const auto reads_x = make_model_method("def-a", options, {}, communicator, place);
    std::array<std::vector<float>, 2> models{problem->start(), problem->start()};
    for (const auto& method : {reads_y.get(), reads_x.get()}) method->register_tensors(problem->tensors());
    reads_y->start(models[0]);
    reads_x->start(models[1]);
    std::vector<double> plain(problem->start().begin(), problem->start().end());
    std::vector<float> point(n);
    std::vector<float> gradient(n);
    std::vector<float> x = problem->start();
    std::vector<float> next_x(n);
    std::vector<float> y(n);
    std::vector<std::uint32_t> moved(n, 0);
    for (std::uint32_t step = 0; step < kInterpolationSteps; ++step) {
      const StepInput input{.key = {seed, step, 0}, .learning_rate = kRate};
      std::copy(plain.begin(), plain.end(), point.begin());
      problem->gradient(0, step, point, gradient);
      for (std::size_t i = 0; i < n; ++i) plain[i] -= wide(kRate) * wide(gradient[i]);
      problem->gradient(0, step, models[0], gradient);
      reads_y->step(input, models[0], gradient);
      problem->gradient(0, step, models[1], gradient);
      reads_x->step(input, models[1], gradient);
      reads_y->read_out(models[0], y);
      reads_x->read_out(models[1], next_x);
      for (std::size_t i = 0; i < n; ++i) {
        result.deviation = std::max(result.deviation, std::fabs(wide(y[i]) - plain[i]));
        const bool kept = next_x[i] == y[i];
        result.between = result.between && (kept || next_x[i] == x[i]);
        moved[i] += kept ? 1 : 0;
      }
      x.swap(next_x);
    }
    for (const std::uint32_t steps : moved) {
      result.least = std::min(result.least, steps / double{kInterpolationSteps});
      result.most = std::max(result.most, steps / double{kInterpolationSteps});
    }
  });
  result.deviation /= largest(problem->start());
  return result;
}

/// ‖x_T − x*‖ over ‖x_0 − x*‖; infinite where a number overflowed on the way.
double growth(const RunConfig& config, const Problem& problem) {
  const double start = problem.distance(problem.start()).value();
  double last = 0.0;
  try {
    run_small(config, problem, {config.steps, [&](std::uint32_t, View<const float> point) {
                                  last = problem.distance(point).value() / start;
                                }});
  } catch (const Error&) {
    return HUGE_VAL;  // the method refuses what is not finite
  }
  return last;
}

}  // namespace

ClaimOutcome def_virtual_iterate(const ClaimOptions& options) {
  constexpr std::array kRatios{1.0, 4.0, 16.0, 32.0};
  std::vector<double> deviations(kRatios.size() * static_cast<std::size_t>(options.seeds));
  side_by_side(deviations.size(), options, [&](std::size_t job) {
    deviations[job] = virtual_deviation(kRatios[job % kRatios.size()], job / kRatios.size() + 1);
  });
  ClaimOutcome outcome;
  outcome.columns = {"ratio", "furthest from the model"};
  double furthest = 0.0;
  for (std::size_t i = 0; i < kRatios.size(); ++i) {
    double most = 0.0;
    for (std::size_t job = i; job < deviations.size(); job += kRatios.size()) most = std::max(most, deviations[job]);
    furthest = std::max(furthest, most);
    outcome.rows.push_back({fixed(kRatios[i], 0), scientific(most)});
  }
  outcome.holds = furthest < 1e-5;
  outcome.measured = "furthest over 300 steps, 4 workers: " + scientific(furthest);
  return outcome;
}

ClaimOutcome def_sgd_ia(const ClaimOptions& options) {
  constexpr std::array kRatios{2.0, 4.0, 16.0};
  std::array<InterpolationResult, kRatios.size()> results;
  side_by_side(results.size(), options, [&](std::size_t i) { results[i] = interpolate(kRatios[i], 1); });
  ClaimOutcome outcome;
  outcome.columns = {"ratio", "y from plain SGD", "x is y or stays", "least share of an entry", "most", "1/ratio"};
  outcome.holds = true;
  for (std::size_t i = 0; i < kRatios.size(); ++i) {
    const InterpolationResult& result = results[i];
    // An entry's steps are independent draws of its block; the pooled share is 1/ratio whatever is drawn.
    const double delta = 1.0 / kRatios[i];
    const double allowed = 6.0 * std::sqrt(delta * (1.0 - delta) / kInterpolationSteps);
    outcome.holds = outcome.holds && result.deviation < 1e-5 && result.between && delta - result.least <= allowed &&
                    result.most - delta <= allowed;
    outcome.rows.push_back({fixed(kRatios[i], 0), scientific(result.deviation), result.between ? "yes" : "no",
                            fixed(result.least, 3), fixed(result.most, 3), fixed(delta, 3)});
    outcome.measured += (i == 0 ? "" : "; ") + std::string("ratio ") + fixed(kRatios[i], 0) + ": y off by " +
                        scientific(result.deviation) + ", entries' shares " + fixed(result.least, 3) + " to " +
                        fixed(result.most, 3);
  }
  return outcome;
}

ClaimOutcome def_vs_ef(const ClaimOptions& options) {
  constexpr double kRatio = 16.0;
  constexpr double kMomentum = 0.9;
  constexpr std::array kLoads{0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0};
  struct Entry {
    const char* name;
    const char* method;
    double lambda;
  };
  constexpr std::array<Entry, 3> kEntries{{{"EF", "ef-rbgs", 0.0}, {"DEF .3", "def", 0.3}, {"DEF .6", "def", 0.6}}};
  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<double>> ends(kLoads.size() * kEntries.size(), std::vector<double>(seeds));
  side_by_side(ends.size() * seeds, options, [&](std::size_t job) {
    const std::size_t which = job / seeds;
    const std::size_t seed = job % seeds;
    const Entry& entry = kEntries[which % kEntries.size()];
    const auto problem = make_problem("noisy-quadratic", {{"dimension", 256}, {"noise", 0}}, 4, seed + 1);
    RunConfig config;
    config.method = entry.method;
    config.workers = 4;
    config.steps = 2000;
    config.learning_rate = kLoads[which / kEntries.size()] * (1.0 - kMomentum) / kRatio;
    config.seed = seed + 1;
    config.optimizer.momentum = kMomentum;
    config.options.ratio = kRatio;
    if (entry.lambda > 0.0) config.options.lambda = entry.lambda;
    ends[which][seed] = growth(config, *problem);
  });
  ClaimOutcome outcome;
  outcome.columns = {"lr L ratio/(1-momentum)", kEntries[0].name, kEntries[1].name, kEntries[2].name};
  std::array<double, kEntries.size()> first_diverging;
  first_diverging.fill(HUGE_VAL);
  outcome.holds = true;
  for (std::size_t i = 0; i < kLoads.size(); ++i) {
    std::vector<std::string> row{fixed(kLoads[i], 1)};
    std::array<double, kEntries.size()> found{};
    for (std::size_t j = 0; j < kEntries.size(); ++j) {
      found[j] = median(ends[i * kEntries.size() + j]);
      row.push_back(scientific(found[j]));
    }
    outcome.rows.push_back(row);
    for (std::size_t j = 0; j < kEntries.size(); ++j) {
      if (!(found[j] <= 1e3)) first_diverging[j] = std::min(first_diverging[j], kLoads[i]);
    }
    outcome.holds = outcome.holds && !(found[0] < 0.1 && !(found[1] < 0.1));
  }
  outcome.holds = outcome.holds && first_diverging[0] < first_diverging[1];
  const auto said = [](double load) { return std::isfinite(load) ? "from " + fixed(load, 1) : std::string("nowhere"); };
  outcome.measured = "diverges: EF " + said(first_diverging[0]) + ", DEF .3 " + said(first_diverging[1]) + ", DEF .6 " +
                     said(first_diverging[2]);
  return outcome;
}

}  // namespace laconic::claims
