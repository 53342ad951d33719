#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/method.h"
#include "laconic/place.h"
#include "problems/problem.h"

// What a run trains: a problem in closed form, or a network on a data set (src/torch). The training loop does not
// depend on which of them it is.

namespace laconic {

/// The figures of one point.
struct Evaluation {
  double loss = 0.0;
  // What this kind of workload is judged by beside the loss.
  std::optional<double> accuracy{};    ///< share of the test samples that are classified correctly
  std::optional<double> perplexity{};  ///< exp(loss) of a model of language
  std::optional<double> distance{};    ///< from the optimum, if it is known
};

/// One worker's part of the training. The loop owns the model and the gradient: flat views of the tensors in order, the
/// same views in every call except evaluate.
class Learner {
 public:
  /// Called when a tensor's gradient is complete and will not change any more, once per tensor, in any order.
  using Ready = std::function<void(std::uint32_t tensor)>;

  virtual ~Learner() = default;
  virtual const std::vector<Tensor>& tensors() const = 0;
  /// Where this worker computes. The loop's model and gradient lie in its memory, and the method works there.
  virtual Place& place() = 0;
  /// What computes there, for the record: "cpu", or a GPU's name and how it computes.
  virtual std::string device() const { return device_name(Device::cpu); }
  /// Writes the point where all workers start, the same on all ranks.
  virtual void start(View<float> model) = 0;
  /// Writes the point where this worker starts if the method allows workers to have different models.
  virtual void start_apart(View<float> /*model*/) {}

  /// Whether gradient() calls `ready`.
  virtual bool tells_when_ready() const { return false; }
  /// Computes this worker's gradient in a step and returns its loss. `ready` may be empty. The model must not change
  /// before the call returns.
  virtual double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) = 0;
  /// The gradient of the function that all workers share in this round, for scores.
  virtual void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) = 0;
  /// With a group, the call is collective, `point` is the same on all ranks, and so is the result. Without a group,
  /// this rank evaluates its own point.
  virtual Evaluation evaluate(View<float> point, Communicator* group) = 0;

  /// Writes the model, at the point that was evaluated last, to a file for other programs. Does nothing if the model
  /// has no such format.
  virtual void write_model(const std::string& /*path*/, View<const float> /*point*/) {}

  /// Saves what this worker stores besides the model: a network's running statistics.
  virtual void save(State& /*state*/) const {}
  virtual void load(const State& /*state*/) {}
};

struct RunConfig;

/// Makes learners. Immutable: ranks that are threads share one.
class Workload {
 public:
  virtual ~Workload() = default;
  /// Called in the rank's own thread.
  virtual std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const = 0;
  /// A place for copies between ranks that are threads, on the device that their learners share. Null on the CPU.
  virtual std::shared_ptr<Place> copying_place(const RunConfig& /*config*/) const { return nullptr; }
  /// A note for the user on the data; usually empty.
  virtual std::string note() const { return {}; }
  /// Text that a model writes, drawn with the run's seed, for people to look at. Empty unless it is a model of language.
  virtual std::string write_text(const RunConfig& /*config*/, View<const float> /*model*/,
                                 std::uint32_t /*characters*/) const {
    return {};
  }
  /// Known properties of the loss, for methods that need them.
  virtual std::optional<double> smoothness() const { return {}; }
  virtual std::optional<double> convexity() const { return {}; }
};

/// The problem must outlive the workload. Throws InvalidConfig if the problem is for another number of workers.
std::unique_ptr<Workload> problem_workload(const Problem& problem);
std::unique_ptr<Workload> problem_workload(std::unique_ptr<Problem> problem);

}  // namespace laconic
