#pragma once

#include <functional>
#include <string>
#include <vector>

#include "claims/claims.h"
#include "experiment/run.h"

namespace laconic::claims {

/// job(0), …, job(count − 1), as many at a time as there are cores; the first exception is thrown again here.
void side_by_side(std::size_t count, const ClaimOptions& options, const std::function<void(std::size_t)>& job);

/// The middle one, the mean of two where their number is even. A NaN counts as larger than all.
double median(std::vector<double> values);

/// "-2.31"; "inf" and "nan" as they are.
std::string fixed(double value, int decimals);
/// "3.1e-05".
std::string scientific(double value, int decimals = 1);

/// Slope of the least-squares line through the points.
double slope(const std::vector<double>& x, const std::vector<double>& y);

/// A run's evaluations, as rank 0 saw them.
class Curve : public Observer {
 public:
  struct Point {
    std::uint32_t steps;  ///< made so far
    double loss;
    double distance;      ///< 0 where no optimum is known
    std::uint64_t bytes;  ///< sent by all ranks so far
  };
  void on_step(const StepRecord& record) override;
  const std::vector<Point>& points() const { return points_; }
  /// The point after so many steps.
  const Point& after(std::uint32_t steps) const;

 private:
  std::vector<Point> points_;
};

/// run_threads with ranks that take turns on the caller's thread (transport/turns).
std::vector<RunResult> run_in_turn(const RunConfig& config, const Problem& problem, Observer* observer = nullptr);

/// One run in turn with its curve.
Curve curve_of(const RunConfig& config, const Problem& problem);

/// Called on rank 0 after every so many steps with the point to test.
struct Look {
  std::uint32_t interval = 1;
  std::function<void(std::uint32_t steps, View<const float> point)> at;
};

/// The loop's steps without its clocks and counts, in turn and on the reference kernels, which are the fastest where a
/// vector has a hundred entries (and give the same bits): for runs by the hundred. Lockstep methods only.
void run_small(const RunConfig& config, const Problem& problem, const Look& look);

}  // namespace laconic::claims
