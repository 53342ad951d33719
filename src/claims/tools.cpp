#include "claims/tools.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "experiment/derive.h"
#include "transport/turns/run_ranks.h"

namespace laconic::claims {

void side_by_side(std::size_t count, const ClaimOptions& options, const std::function<void(std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  std::exception_ptr first;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        job(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        next = count;
      }
      const std::lock_guard lock(mutex);
      ++done;
      if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(count));
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // The system has no more threads: those that started do all the jobs.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

double median(std::vector<double> values) {
  LACONIC_CHECK(!values.empty());
  std::sort(values.begin(), values.end(), [](double left, double right) {
    if (std::isnan(left) || std::isnan(right)) return !std::isnan(left) && std::isnan(right);
    return left < right;
  });
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

namespace {

std::string printed(const char* format, double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, decimals, value);
  return buffer;
}

}  // namespace

std::string fixed(double value, int decimals) { return printed("%.*f", value, decimals); }
std::string scientific(double value, int decimals) { return printed("%.*e", value, decimals); }

double slope(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double products = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    products += (x[i] - mean_x) * (y[i] - mean_y);
    squares += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return products / squares;
}

void Curve::on_step(const StepRecord& record) {
  if (!record.loss) return;
  const auto bytes = std::accumulate(record.sent_by_rank.begin(), record.sent_by_rank.end(), std::uint64_t{0});
  points_.push_back({record.step, *record.loss, record.distance.value_or(0.0), bytes});
}

const Curve::Point& Curve::after(std::uint32_t steps) const {
  const auto found =
      std::find_if(points_.begin(), points_.end(), [&](const Point& point) { return point.steps == steps; });
  if (found == points_.end()) throw BrokenInvariant("no evaluation after step " + std::to_string(steps));
  return *found;
}

std::vector<RunResult> run_in_turn(const RunConfig& config, const Problem& problem, Observer* observer) {
  require_valid(config);
  std::vector<RunResult> results(static_cast<std::size_t>(config.workers));
  run_ranks_in_turn(config.workers, [&](Communicator& communicator) {
    Observer silent;
    Observer& chosen = observer != nullptr && communicator.rank() == 0 ? *observer : silent;
    results[static_cast<std::size_t>(communicator.rank())] = run_worker(config, problem, communicator, chosen);
  });
  return results;
}

Curve curve_of(const RunConfig& config, const Problem& problem) {
  Curve curve;
  run_in_turn(config, problem, &curve);
  return curve;
}

void run_small(const RunConfig& config, const Problem& problem, const Look& look) {
  require_valid(config);
  run_ranks_in_turn(config.workers, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Place place({.threads = 1, .simd = SimdLevel::reference});
    const auto method =
        make_model_method(config.method, derived_options(config, problem), config.optimizer, communicator, place);
    method->register_tensors(problem.tensors());
    std::vector<float> model = problem.start();
    std::vector<float> gradient(model.size());
    std::vector<float> tested(model.size());
    method->start(model);
    for (std::uint32_t step = 0; step < config.steps; ++step) {
      const double loss = problem.gradient(rank, step, model, gradient);
      if (rank >= config.workers - config.adversaries) {
        for (float& value : gradient) value = -value;
      }
      method->step({.key = {config.seed, step, static_cast<std::uint32_t>(rank)},
                    .learning_rate = static_cast<float>(learning_rate_at(config, step)),
                    .loss = static_cast<float>(loss)},
                   model, gradient);
      if ((step + 1) % look.interval != 0) continue;
      method->read_out(model, tested);
      if (rank == 0) look.at(step + 1, tested);
    }
  });
}

}  // namespace laconic::claims
