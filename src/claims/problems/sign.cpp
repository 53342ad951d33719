// signSGD and the majority vote (Bernstein et al. 2018, 2019) on quadratics whose gradient and noise have a density
// that is known: φ(v) = ‖v‖₁² / (d‖v‖₂²).

#include <algorithm>
#include <array>
#include <cmath>

#include "claims/problems/checks.h"
#include "claims/tools.h"
#include "problems/quadratic.h"

namespace laconic::claims {
namespace {

RunConfig sign_config(const char* method, int workers, std::uint32_t steps, double rate, std::uint64_t seed) {
  RunConfig config;
  config.problem = "noisy-quadratic";
  config.method = method;
  config.workers = workers;
  config.steps = steps;
  config.learning_rate = rate;
  config.seed = seed;
  return config;
}

/// Mean loss over the looks of the run's last half: what it has settled at.
double settled_loss(const RunConfig& config, const Problem& problem) {
  double sum = 0.0;
  int looks = 0;
  run_small(config, problem, {std::max(1U, config.steps / 50), [&](std::uint32_t steps, View<const float> point) {
                                if (steps <= config.steps / 2) return;
                                sum += problem.loss(point);
                                ++looks;
                              }});
  return sum / looks;
}

double end_loss(const RunConfig& config, const Problem& problem) {
  double loss = 0.0;
  run_small(config, problem,
            {config.steps, [&](std::uint32_t, View<const float> point) { loss = problem.loss(point); }});
  return loss;
}

double density(const std::vector<double>& v) {
  double ones = 0.0;
  double squares = 0.0;
  for (const double each : v) {
    ones += std::fabs(each);
    squares += each * each;
  }
  return ones * ones / (static_cast<double>(v.size()) * squares);
}

struct Densities {
  double gradient;
  double noise;
};

/// Of the mean gradient and the noise's deviations at the start, by Welford's one pass over gradients of many steps.
Densities measure_densities(const Problem& problem) {
  constexpr std::uint32_t kDraws = 2000;
  const std::size_t n = problem.parameters();
  std::vector<double> mean(n, 0.0);
  std::vector<double> squares(n, 0.0);
  std::vector<float> gradient(n);
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    problem.gradient(0, draw, problem.start(), gradient);
    for (std::size_t i = 0; i < n; ++i) {
      const double before = static_cast<double>(gradient[i]) - mean[i];
      mean[i] += before / (draw + 1);
      squares[i] += before * (static_cast<double>(gradient[i]) - mean[i]);
    }
  }
  std::vector<double> deviation(n);
  for (std::size_t i = 0; i < n; ++i) deviation[i] = std::sqrt(squares[i] / (kDraws - 1));
  // The mean's own error would pass for a dense gradient where the true one is sparse: take the function's.
  problem.shared_gradient(problem.start(), gradient);
  return {density({gradient.begin(), gradient.end()}), density(deviation)};
}

/// The least median loss at the end over a grid of learning rates, so that neither method loses by a bad one.
struct Best {
  double loss = HUGE_VAL;
  double rate = 0.0;
};

Best best_of(const char* method, const std::vector<std::unique_ptr<Problem>>& problems, const ClaimOptions& options) {
  constexpr std::array kRates{1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1};
  constexpr std::uint32_t kStepsEach = 1000;
  const std::size_t seeds = problems.size();
  std::vector<double> ends(kRates.size() * seeds);
  side_by_side(ends.size(), options, [&](std::size_t job) {
    const std::size_t seed = job % seeds;
    ends[job] = end_loss(sign_config(method, 1, kStepsEach, kRates[job / seeds], seed + 1), *problems[seed]);
  });
  Best best;
  for (std::size_t i = 0; i < kRates.size(); ++i) {
    const auto first = ends.begin() + static_cast<std::ptrdiff_t>(i * seeds);
    const double loss = median({first, first + static_cast<std::ptrdiff_t>(seeds)});
    if (loss < best.loss) best = {loss, kRates[i]};
  }
  return best;
}

std::vector<std::unique_ptr<Problem>> quadratics(const ProblemNumbers& settings, int workers, int seeds) {
  std::vector<std::unique_ptr<Problem>> problems;
  for (int seed = 1; seed <= seeds; ++seed) {
    problems.push_back(make_problem("noisy-quadratic", settings, workers, static_cast<std::uint64_t>(seed)));
  }
  return problems;
}

/// How many times as far a vote of W (odd) leans to a small signal as one worker does: W·C(W−1, (W−1)/2) / 2^(W−1),
/// the change of the majority's probability with that of one vote at 1/2. √(2W/π) for many workers.
double vote_gain(int workers) {
  double gain = workers;
  for (int i = 1; i <= (workers - 1) / 2; ++i) gain *= (2.0 * i - 1.0) / (2.0 * i);
  return gain;
}

/// d = 100: only the first coordinate starts away from the optimum, all have noise.
std::vector<std::unique_ptr<Problem>> sparse_gradients(int seeds) {
  constexpr std::size_t kDimension = 100;
  Quadratic quadratic;
  quadratic.curvature.assign(kDimension, 1.0F);
  quadratic.noise.assign(kDimension, 1.0F);
  quadratic.start.assign(kDimension, 0.0F);
  quadratic.start[0] = 100.0F;
  std::vector<std::unique_ptr<Problem>> problems;
  for (int seed = 1; seed <= seeds; ++seed) {
    problems.push_back(make_quadratic(quadratic, 1, static_cast<std::uint64_t>(seed)));
  }
  return problems;
}

}  // namespace

ClaimOutcome sign_noisy_quadratic(const ClaimOptions& options) {
  constexpr std::uint32_t kSteps = 2000;
  const auto problems = quadratics({}, 1, options.seeds);
  const std::size_t seeds = problems.size();
  std::vector<double> sgd(seeds);
  std::vector<double> sign(seeds);
  side_by_side(2 * seeds, options, [&](std::size_t job) {
    const std::size_t seed = job / 2;
    const bool signs = job % 2 == 1;
    const RunConfig config = sign_config(signs ? "signsgd" : "sgd", 1, kSteps, signs ? 0.01 : 0.001, seed + 1);
    (signs ? sign : sgd)[seed] = settled_loss(config, *problems[seed]);
  });
  ClaimOutcome outcome;
  const double of_sgd = median(sgd);
  const double of_sign = median(sign);
  outcome.holds = of_sign < of_sgd;
  outcome.columns = {"method", "lr", "loss, mean of the last 1,000 of 2,000 steps"};
  outcome.rows = {{"sgd", "0.001", fixed(of_sgd, 3)}, {"signsgd", "0.01", fixed(of_sign, 3)}};
  outcome.measured = "loss signSGD " + fixed(of_sign, 3) + ", SGD " + fixed(of_sgd, 3);
  return outcome;
}

ClaimOutcome sign_geometry(const ClaimOptions& options) {
  ClaimOutcome outcome;
  outcome.columns = {"problem", "density of gradient", "of noise", "sgd", "lr", "signsgd", "lr"};
  std::array<bool, 2> as_said{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto problems = i == 0 ? quadratics({}, 1, options.seeds) : sparse_gradients(options.seeds);
    const Densities densities = measure_densities(*problems[0]);
    const Best sgd = best_of("sgd", problems, options);
    const Best sign = best_of("signsgd", problems, options);
    as_said[i] = i == 0 ? sign.loss < sgd.loss : sgd.loss < sign.loss;
    const std::string name = i == 0 ? "dense gradient, sparse noise" : "sparse gradient, dense noise";
    outcome.rows.push_back({name, fixed(densities.gradient, 3), fixed(densities.noise, 3), scientific(sgd.loss),
                            scientific(sgd.rate, 0), scientific(sign.loss), scientific(sign.rate, 0)});
    outcome.measured += (i == 0 ? "" : "; ") + name + " (" + fixed(densities.gradient, 2) + ", " +
                        fixed(densities.noise, 2) + "): signSGD " + scientific(sign.loss) + ", SGD " +
                        scientific(sgd.loss);
  }
  outcome.holds = as_said[0] && as_said[1];
  return outcome;
}

ClaimOutcome sign_vote_noise(const ClaimOptions& options) {
  constexpr std::array kWorkers{1, 3, 9, 27};
  constexpr std::size_t kDimension = 1000;
  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<double>> losses(kWorkers.size(), std::vector<double>(seeds));
  side_by_side(kWorkers.size() * seeds, options, [&](std::size_t job) {
    const std::size_t which = kWorkers.size() - 1 - job / seeds;  // the long ones first
    const std::size_t seed = job % seeds;
    const auto problem =
        make_problem("noisy-quadratic", {{"dimension", kDimension}, {"noise", 1}, {"noisy", 0}, {"start", 0}},
                     kWorkers[which], seed + 1);
    losses[which][seed] = settled_loss(sign_config("signsgd", kWorkers[which], 1000, 0.01, seed + 1), *problem);
  });
  ClaimOutcome outcome;
  outcome.columns = {"workers", "loss", "times the loss of one", "exact for small signals", "1/sqrt(W)"};
  std::vector<double> log_workers;
  std::vector<double> log_loss;
  const double alone = median(losses[0]);
  double furthest = 0.0;
  for (std::size_t i = 0; i < kWorkers.size(); ++i) {
    const double loss = median(losses[i]);
    log_workers.push_back(std::log(kWorkers[i]));
    log_loss.push_back(std::log(loss));
    const double exact = 1.0 / vote_gain(kWorkers[i]);
    furthest = std::max(furthest, std::fabs(loss / alone / exact - 1.0));
    outcome.rows.push_back({std::to_string(kWorkers[i]), fixed(loss, 4), fixed(loss / alone, 3), fixed(exact, 3),
                            fixed(1.0 / std::sqrt(kWorkers[i]), 3)});
    outcome.measured += (i == 0 ? "W = " : ", ") + std::to_string(kWorkers[i]) + ": " + fixed(loss / alone, 3) + " (" +
                        fixed(exact, 3) + ")";
  }
  outcome.holds = furthest <= 0.05;
  outcome.measured +=
      "; furthest " + fixed(100.0 * furthest, 1) + " %, power " + fixed(slope(log_workers, log_loss), 3);
  return outcome;
}

ClaimOutcome sign_adversaries(const ClaimOptions& options) {
  constexpr int kWorkers = 7;
  const auto problems = quadratics({{"noise", 1}, {"noisy", 0}, {"start", 1}}, kWorkers, options.seeds);
  const std::size_t seeds = problems.size();
  constexpr std::size_t kCases = 5;
  std::vector<std::vector<double>> shares(kCases, std::vector<double>(seeds));
  side_by_side(kCases * seeds, options, [&](std::size_t job) {
    const std::size_t adversaries = job / seeds;
    const std::size_t seed = job % seeds;
    const Problem& problem = *problems[seed];
    RunConfig config = sign_config("signsgd", kWorkers, 3000, 0.005, seed + 1);
    config.adversaries = static_cast<int>(adversaries);
    shares[adversaries][seed] = settled_loss(config, problem) / problem.loss(problem.start());
  });
  ClaimOutcome outcome;
  outcome.columns = {"inverting", "share of the first loss that is left"};
  outcome.holds = true;
  for (std::size_t i = 0; i < kCases; ++i) {
    const double share = median(shares[i]);
    outcome.holds = outcome.holds && (i < 4 ? share < 0.05 : share > 1.0);
    outcome.rows.push_back({std::to_string(i) + " of 7", fixed(share, 4)});
    outcome.measured += (i == 0 ? "left: " : ", ") + std::to_string(i) + " of 7 " + fixed(100.0 * share, 2) + " %";
  }
  return outcome;
}

ClaimOutcome sign_ties(const ClaimOptions& options) {
  constexpr std::array kWorkers{4, 8, 7};
  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<double>> losses(2 * kWorkers.size(), std::vector<double>(seeds));
  side_by_side(losses.size() * seeds, options, [&](std::size_t job) {
    const std::size_t which = job / seeds;
    const std::size_t seed = job % seeds;
    const int workers = kWorkers[which / 2];
    const auto problem = make_problem("noisy-quadratic", {{"noise", 1}, {"noisy", 0}, {"start", 1}}, workers, seed + 1);
    RunConfig config = sign_config("signsgd", workers, 2000, 0.01, seed + 1);
    config.options.ties = which % 2 == 0 ? "plus" : "random";
    losses[which][seed] = settled_loss(config, *problem);
  });
  ClaimOutcome outcome;
  outcome.columns = {"workers", "ties to plus", "random ties"};
  outcome.holds = true;
  for (std::size_t i = 0; i < kWorkers.size(); ++i) {
    const double plus = median(losses[2 * i]);
    const double random = median(losses[2 * i + 1]);
    const bool even = kWorkers[i] % 2 == 0;
    outcome.holds = outcome.holds && (even ? random < 0.5 * plus : random == plus);
    outcome.rows.push_back({std::to_string(kWorkers[i]), fixed(plus, 4), fixed(random, 4)});
    outcome.measured += (i == 0 ? "loss " : "; ") + std::string("W = ") + std::to_string(kWorkers[i]) + ": plus " +
                        fixed(plus, 3) + ", random " + fixed(random, 3);
  }
  return outcome;
}

}  // namespace laconic::claims
