#pragma once

#include <functional>
#include <vector>

namespace laconic::bench {

/// Timed runs of one thing. A run in which the process had less of its cores than it can have is left out: on a shared
/// machine such runs measure the neighbours.
class Samples {
 public:
  void add(double seconds, double cpu_seconds);

  /// Of the runs that count, at least one.
  double median() const;
  int discarded() const;

 private:
  struct Sample {
    double seconds;
    double cores;  ///< CPU seconds a second
  };
  std::vector<double> counting() const;
  std::vector<Sample> samples_;
};

/// The middle one, the mean of two where their number is even. At least one value.
double median_of(std::vector<double> values);

/// Runs once and notes how long it took.
void time_once(Samples& samples, const std::function<void()>& body);

}  // namespace laconic::bench
