#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/method.h"
#include "problems/problem.h"

// What a run learns. A problem in closed form is one kind, a network on a data set another (src/torch); the loop knows
// neither.

namespace laconic {

/// What a point is worth.
struct Evaluation {
  double loss = 0.0;
  std::optional<double> accuracy{};  ///< share of the test samples that are named rightly
  std::optional<double> distance{};  ///< from the optimum, where it is known
};

/// One worker's side of what is learned. The loop owns the model and the gradient: flat views of the tensors in order,
/// the same views at every call but evaluate.
class Learner {
 public:
  /// Called when a tensor's gradient is complete and will not change any more, in any order, once a tensor.
  using Ready = std::function<void(std::uint32_t tensor)>;

  virtual ~Learner() = default;
  virtual const std::vector<Tensor>& tensors() const = 0;
  /// Where all workers start, the same on all ranks.
  virtual void start(View<float> model) = 0;
  /// Where this worker starts if the method lets workers hold different models.
  virtual void start_apart(View<float> /*model*/) {}

  /// Whether gradient() calls `ready`.
  virtual bool tells_when_ready() const { return false; }
  /// This worker's gradient at its step; returns its loss there. `ready` may be empty. The model must not change before
  /// it returns.
  virtual double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) = 0;
  /// The gradient of the function that all workers share in this round, for scores.
  virtual void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) = 0;
  /// With a group it is collective, `point` is the same on all ranks, and so is what is returned. Without one it is
  /// this rank's own point and look.
  virtual Evaluation evaluate(View<float> point, Communicator* group) = 0;

  /// Writes the model at a point that evaluate saw last, for other programs to read; nothing where there is no such
  /// form.
  virtual void write_model(const std::string& /*path*/, View<const float> /*point*/) {}

  /// What this worker remembers besides the model: a network's running statistics.
  virtual void save(State& /*state*/) const {}
  virtual void load(const State& /*state*/) {}
};

struct RunConfig;

/// Makes learners. Immutable: ranks that are threads share one.
class Workload {
 public:
  virtual ~Workload() = default;
  /// In the rank's own thread.
  virtual std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const = 0;
  /// What a user should know of the data; mostly empty.
  virtual std::string note() const { return {}; }
  /// What is known of the loss, for methods that ask.
  virtual std::optional<double> smoothness() const { return {}; }
  virtual std::optional<double> convexity() const { return {}; }
};

/// The problem must live as long. InvalidConfig where it is posed for another number of workers.
std::unique_ptr<Workload> problem_workload(const Problem& problem);
std::unique_ptr<Workload> problem_workload(std::unique_ptr<Problem> problem);

}  // namespace laconic
