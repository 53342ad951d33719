#include "torch/diagnose/diagnose.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "base/buffer.h"
#include "base/check.h"
#include "base/philox.h"
#include "experiment/derive.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "torch/diagnose/hessian.h"
#include "torch/train/network_learner.h"

namespace laconic {
namespace {

std::unique_ptr<NetworkLearner> network_learner(const RunConfig& config, const Workload& workload, int rank) {
  std::unique_ptr<Learner> learner = workload.make_learner(config, rank);
  if (dynamic_cast<NetworkLearner*>(learner.get()) == nullptr) {
    throw InvalidConfig("only a network has a Hessian to measure: name a task, such as digits");
  }
  return std::unique_ptr<NetworkLearner>(static_cast<NetworkLearner*>(learner.release()));
}

/// So many different samples of 0 … size − 1, in the order in which they were drawn.
std::vector<std::uint32_t> draw_samples(std::uint32_t size, std::uint32_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  const RandomStream stream{.seed = seed, .purpose = Purpose::flatness_samples};
  count = std::min(count, size);
  for (std::uint32_t i = 0; i < count; ++i) std::swap(all[i], all[i + draw_below(stream, i, size - i)]);
  all.resize(count);
  return all;
}

/// The loss over a sample, and its second derivatives.
class SampleLoss {
 public:
  SampleLoss(NetworkLearner& learner, const NetworkPoint& point, const FlatnessOptions& options)
      : learner_(learner),
        samples_(draw_samples(learner.task().train_size(), options.samples, options.seed)),
        batch_(options.batch),
        point_(point.model.size()) {
    FlatNetwork& network = learner.network();
    std::copy(point.model.begin(), point.model.end(), point_.view().begin());
    network.rebind(View<const float>(point_.view(point.model.size())));
    network.on_gradient_ready({});
    if (point.statistics.empty()) {
      estimate_statistics();
    } else {
      require_size("statistics", point.statistics.size(), network.buffers().size());
      std::copy(point.statistics.begin(), point.statistics.end(), network.buffers().begin());
    }
    network.network().eval();
  }

  std::size_t size() const { return learner_.network().size(); }
  std::uint32_t samples() const { return static_cast<std::uint32_t>(samples_.size()); }

  double value() const {
    const torch::NoGradGuard no_graph;
    double sum = 0.0;
    for_batches([&](std::span<const std::uint32_t> batch, double weight) {
      sum += weight * learner_.loss_of(batch, 0).item<double>();
    });
    return sum;
  }

  /// Hessian·vector.
  void product(View<const float> vector, View<float> out) const {
    const std::vector<torch::Tensor> parameters = learner_.network().network().parameters();
    std::fill(out.begin(), out.end(), 0.0F);
    for_batches([&](std::span<const std::uint32_t> batch, double weight) {
      add_hessian_product(learner_.loss_of(batch, 0) * weight, parameters, vector, out);
    });
  }

 private:
  /// With each batch's share of the sample.
  template <class Body>
  void for_batches(Body&& body) const {
    for (std::size_t begin = 0; begin < samples_.size(); begin += batch_) {
      const auto batch = std::span(samples_).subspan(begin, std::min<std::size_t>(batch_, samples_.size() - begin));
      body(batch, static_cast<double>(batch.size()) / static_cast<double>(samples_.size()));
    }
  }

  /// The plain mean of the batches' own.
  void estimate_statistics() {
    const torch::NoGradGuard no_graph;
    nets::Network& network = learner_.network().network();
    if (learner_.network().buffers().empty()) return;
    network.train();
    int seen = 0;
    for_batches([&](std::span<const std::uint32_t> batch, double /*weight*/) {
      network.set_norm_momentum(1.0 / ++seen);
      learner_.loss_of(batch, 0);
    });
    network.set_norm_momentum(0.1);
  }

  NetworkLearner& learner_;
  std::vector<std::uint32_t> samples_;
  std::size_t batch_;
  Buffer<float> point_;
};

void require_valid(const FlatnessOptions& options) {
  if (options.samples == 0 || options.batch == 0) throw InvalidConfig("samples and batch must be 1 or more, got 0");
}

}  // namespace

NetworkPoint start_point(const RunConfig& config, const Workload& workload) {
  const auto learner = network_learner(config, workload, 0);
  NetworkPoint point;
  point.model.resize(learner->network().size());
  learner->start(View<float>(point.model));
  return point;
}

NetworkPoint checkpoint_point(const RunConfig& config, const Workload& workload, const std::string& checkpoint) {
  require_sound_checkpoint(checkpoint, config.workers);
  NetworkPoint point;
  run_ranks(config.workers, [&](Communicator& communicator) {
    const auto learner = network_learner(config, workload, communicator.rank());
    const State state = read_checkpoint(checkpoint, communicator.rank());
    const std::size_t size = learner->network().size();
    Buffer<float> model(size), tested(size);
    Place place({.threads = config.threads});
    const auto method =
        make_model_method(config.method, derived_options(config, workload), config.optimizer, communicator, place);
    method->register_tensors(learner->tensors());
    method->load(state.nested("method"));
    learner->load(state.nested("learner"));
    state.get("model", model.view(size));
    method->read_out(View<const float>(model.view(size)), tested.view(size));
    const std::vector<float> statistics = learner->statistics_at(tested.view(size), &communicator);
    if (communicator.rank() != 0) return;
    point.step = static_cast<std::uint32_t>(state.nested("counts").number("steps"));
    point.model.assign(tested.view(size).begin(), tested.view(size).end());
    point.statistics = statistics;
  });
  return point;
}

Flatness flatness(const RunConfig& config, const Workload& workload, const NetworkPoint& point,
                  const FlatnessOptions& options, const ShareDone& progress) {
  require_valid(options);
  const auto learner = network_learner(config, workload, 0);
  require_size("the point", point.model.size(), learner->network().size());
  const SampleLoss loss(*learner, point, options);
  // Most searches end before their steps are used up, and the share then leaps.
  const double products = options.probes + options.lanczos.starts * options.lanczos.steps;
  int done = 0;
  const MatrixProduct hessian = [&](View<const float> vector, View<float> product) {
    loss.product(vector, product);
    if (progress) progress(++done / products);
  };
  Flatness result;
  result.loss = loss.value();
  result.samples = loss.samples();
  result.trace = trace_estimate(hessian, loss.size(), options.probes, options.seed);
  result.largest = largest_eigenvalue(hessian, loss.size(), options.lanczos, options.seed);
  return result;
}

}  // namespace laconic
