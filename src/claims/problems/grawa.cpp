// GRAWA (Dimlioglu, Choromanska 2024): weights 1/‖gradient‖ on a convex problem, Vincent's function, and rounds at the
// workers' own pace.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/philox.h"
#include "claims/problems/checks.h"
#include "claims/tools.h"
#include "problems/functions.h"

namespace laconic::claims {
namespace {

/// ½ Σ h_i x_i², h from 0.1 to 1; every worker's gradient with a noise of its own strength.
class UnequalNoise final : public Problem {
 public:
  UnequalNoise(std::vector<float> noise, std::uint64_t seed)
      : Problem("unequal noise", static_cast<int>(noise.size())), noise_(std::move(noise)), seed_(seed) {
    tensors_ = even_tensors(kDimension, 4);
    start_.assign(kDimension, 1.0F);
    optimum_.assign(kDimension, 0.0);
    smoothness_ = 1.0;
    convexity_ = 0.1;
    for (std::size_t i = 0; i < kDimension; ++i) {
      curvature_.push_back(0.1F + 0.9F * static_cast<float>(i) / static_cast<float>(kDimension - 1));
    }
  }

  double gradient(int worker, std::uint32_t step, View<const float> point, View<float> out) const override {
    shared_gradient(point, out);
    const RandomStream stream{seed_, step, static_cast<std::uint32_t>(worker), 0, Purpose::problem_noise};
    const float noise = noise_[static_cast<std::size_t>(worker)];
    for (std::size_t i = 0; i < kDimension; ++i) out[i] += noise * static_cast<float>(problems::normal(stream, i));
    return loss(point);
  }

  double loss(View<const float> point) const override {
    double sum = 0.0;
    for (std::size_t i = 0; i < kDimension; ++i) {
      sum += 0.5 * static_cast<double>(curvature_[i]) * static_cast<double>(point[i]) * static_cast<double>(point[i]);
    }
    return sum;
  }

  void shared_gradient(View<const float> point, View<float> out) const override {
    for (std::size_t i = 0; i < kDimension; ++i) out[i] = curvature_[i] * point[i];
  }

 private:
  static constexpr std::size_t kDimension = 100;
  std::vector<float> noise_;
  std::vector<float> curvature_;
  std::uint64_t seed_;
};

/// Mean loss over the rounds of the run's last half.
double settled_loss_of_rounds(const RunConfig& config, const Problem& problem) {
  const Curve curve = curve_of(config, problem);
  double sum = 0.0;
  int looks = 0;
  for (const Curve::Point& point : curve.points()) {
    if (point.steps <= config.steps / 2) continue;
    sum += point.loss;
    ++looks;
  }
  return sum / looks;
}

constexpr double kPeriod = 16;

RunConfig round_config(const char* method, std::uint64_t seed) {
  RunConfig config;
  config.method = method;
  config.workers = 4;
  config.steps = 1600;
  config.learning_rate = 0.1;
  config.seed = seed;
  config.eval_interval = static_cast<std::uint32_t>(kPeriod);
  config.options.period = kPeriod;
  return config;
}

struct Setting {
  const char* method;
  double period;
  double pull;  ///< λ; 0: the method's own
};

/// Each method's small grid, so that none loses by a bad setting; the values are those of the paper's own grids.
std::vector<Setting> convex_grid() {
  std::vector<Setting> grid{{"localsgd", 8, 0}, {"localsgd", 16, 0}, {"lsgd", 8, 0}, {"lgrawa", 16, 0}};
  for (const double period : {8.0, 16.0}) {
    for (const double pull : {0.1, 0.3, 0.43}) grid.push_back({"easgd", period, pull});
  }
  for (const double pull : {0.3, 0.5, 0.7}) grid.push_back({"mgrawa", 16, pull});
  return grid;
}

/// −sin(10 ln x) has the second derivative (100 sin(10 ln x) + 10 cos(10 ln x)) / x².
double vincent_curvature(View<const float> point) {
  double trace = 0.0;
  for (const float each : point) {
    const auto x = static_cast<double>(each);
    const double angle = 10.0 * problems::natural_log(x);
    trace += (100.0 * problems::sine(angle) + 10.0 * problems::cosine(angle)) / (x * x);
  }
  return trace;
}

}  // namespace

ClaimOutcome grawa_convex(const ClaimOptions& options) {
  const std::array<std::vector<float>, 2> noises{std::vector<float>{1, 1, 1, 1}, std::vector<float>{0.3F, 1, 1, 3}};
  const auto seeds = static_cast<std::size_t>(options.seeds);
  const std::vector<Setting> grid = convex_grid();
  std::vector<std::vector<double>> losses(2 * grid.size(), std::vector<double>(seeds));
  side_by_side(losses.size() * seeds, options, [&](std::size_t job) {
    const std::size_t which = job / seeds;
    const std::size_t seed = job % seeds;
    const UnequalNoise problem(noises[which / grid.size()], seed + 1);
    const Setting& setting = grid[which % grid.size()];
    RunConfig config = round_config(setting.method, seed + 1);
    config.options.period = setting.period;
    if (setting.pull > 0.0) config.options.pull = setting.pull;
    losses[which][seed] = settled_loss_of_rounds(config, problem);
  });
  ClaimOutcome outcome;
  outcome.columns = {"method", "period", "pull", "noise 1 1 1 1", "noise .3 1 1 3"};
  std::array<std::map<std::string, double>, 2> best;
  for (std::size_t j = 0; j < grid.size(); ++j) {
    const Setting& setting = grid[j];
    outcome.rows.push_back(
        {setting.method, fixed(setting.period, 0), setting.pull > 0.0 ? fixed(setting.pull, 2) : "default"});
    for (std::size_t i = 0; i < 2; ++i) {
      const double loss = median(losses[i * grid.size() + j]);
      const auto at = best[i].try_emplace(setting.method, loss).first;
      at->second = std::min(at->second, loss);
      outcome.rows.back().push_back(fixed(loss, 4));
    }
  }
  for (const std::size_t i : {1U, 0U}) {
    outcome.measured += (i == 1 ? "unequal workers: MGRAWA " : "; equal ones: ") + fixed(best[i]["mgrawa"], 3) +
                        (i == 1 ? ", averaging " : ", ") + fixed(best[i]["localsgd"], 3) +
                        (i == 1 ? ", EASGD " : ", ") + fixed(best[i]["easgd"], 3);
  }
  if (!(best[0]["mgrawa"] < best[0]["easgd"])) outcome.measured += " (EASGD is ahead)";
  outcome.holds = best[1]["mgrawa"] < best[1]["localsgd"] && best[1]["mgrawa"] < best[1]["easgd"];
  return outcome;
}

ClaimOutcome grawa_vincent(const ClaimOptions& options) {
  constexpr std::array<const char*, 5> kMethods{"localsgd", "easgd", "lsgd", "mgrawa", "lgrawa"};
  const auto problem = make_problem("vincent", {}, 4, 1);
  std::array<RunResult, kMethods.size()> results;
  side_by_side(results.size(), options, [&](std::size_t i) {
    RunConfig config = default_config("vincent");
    config.method = kMethods[i];
    config.steps = 2000;
    config.options.period = 4;
    results[i] = run_in_turn(config, *problem).front();
  });
  ClaimOutcome outcome;
  outcome.columns = {"method", "x", "y", "loss", "trace of the Hessian"};
  std::array<double, kMethods.size()> traces{};
  bool all_in_a_minimum = true;
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    const RunResult& result = results[i];
    traces[i] = vincent_curvature(result.model);
    all_in_a_minimum = all_in_a_minimum && result.loss < -1.999;
    outcome.rows.push_back({kMethods[i], fixed(static_cast<double>(result.model[0]), 3),
                            fixed(static_cast<double>(result.model[1]), 3), fixed(result.loss, 4),
                            fixed(traces[i], 1)});
    outcome.measured += (i == 0 ? "trace " : ", ") + std::string(kMethods[i]) + " " + fixed(traces[i], 1);
  }
  // Methods that end in the same minimum differ by where rounding stopped them: another minimum is asked for.
  const double flattest = 0.9 * std::min(traces[0], traces[1]);
  outcome.holds = all_in_a_minimum && traces[3] < flattest && traces[4] < flattest;
  if (std::fabs(traces[2] / traces[3] - 1.0) < 0.01) outcome.measured += ": LSGD ties with MGRAWA";
  return outcome;
}

ClaimOutcome grawa_async(const ClaimOptions& options) {
  const UnequalNoise problem({1, 1, 1, 1}, 1);
  std::array<std::vector<RunResult>, 2> runs;
  for (std::size_t i = 0; i < 2; ++i) {
    RunConfig config = round_config("mgrawa", 1);
    config.steps = 160;
    config.eval_interval = 0;
    config.options.pace = i == 0 ? "lockstep" : "async";
    config.compute_seconds = 0.002;
    config.slowdown = {1, 1, 1, 4};
    runs[i] = run_threads(config, problem);  // real threads: they sleep
    if (options.progress) options.progress(0.5 * static_cast<double>(i + 1));
  }
  ClaimOutcome outcome;
  outcome.columns = {"pace", "rounds", "steps by worker", "seconds", "loss"};
  for (std::size_t i = 0; i < 2; ++i) {
    const RunResult& result = runs[i][0];
    std::string steps;
    for (const std::uint32_t each : result.steps_by_rank) {
      steps.append(steps.empty() ? "" : " ").append(std::to_string(each));
    }
    outcome.rows.push_back({i == 0 ? "lockstep" : "async", std::to_string(result.rounds), steps,
                            fixed(result.wall_seconds, 2), fixed(result.loss, 4)});
  }
  const RunResult& lockstep = runs[0][0];
  const RunResult& async = runs[1][0];
  std::uint32_t total = 0;
  for (const std::uint32_t each : async.steps_by_rank) total += each;
  const double share = async.wall_seconds / lockstep.wall_seconds;
  const auto apart = static_cast<int>(async.rounds) - static_cast<int>(lockstep.rounds);
  outcome.holds = total == 4 * 160 && std::abs(apart) <= 1 && share < 0.5 && async.steps_by_rank[3] < 160;
  outcome.measured = "rounds " + std::to_string(async.rounds) + " against " + std::to_string(lockstep.rounds) +
                     ", wall time " + fixed(async.wall_seconds, 2) + " s against " + fixed(lockstep.wall_seconds, 2) +
                     " s (" + fixed(share, 2) + ")";
  return outcome;
}

}  // namespace laconic::claims
