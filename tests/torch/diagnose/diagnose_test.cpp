// Flatness where it is known: matrices, networks small enough for a whole Hessian, and points of runs.

#include "torch/diagnose/diagnose.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>

#include "laconic/error.h"
#include "support/support.h"
#include "support/temporary_folder.h"
#include "torch/diagnose/hessian.h"
#include "torch/networks.h"
#include "torch/train/task_workload.h"

namespace laconic {
namespace {

using Vector = std::vector<float>;
using test::contains;
using test::message_of;

// An estimate that is more than five of its standard errors off: with 200 probes once in 10^6 seeds.
constexpr double kErrors = 5.0;
constexpr int kProbes = 200;

torch::Tensor tensor_of(View<const float> view) {
  return torch::from_blob(const_cast<float*>(view.data()), {static_cast<std::int64_t>(view.size())}).clone();
}

View<const float> view_of(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

torch::Tensor normal_tensor(at::IntArrayRef sizes, std::uint64_t seed) {
  torch::Tensor values = torch::empty(sizes);
  nets::fill_normal({.seed = seed}, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

MatrixProduct product_with(const torch::Tensor& matrix) {
  return [matrix](View<const float> vector, View<float> out) {
    const torch::Tensor product = matrix.matmul(tensor_of(vector));
    std::copy(view_of(product).begin(), view_of(product).end(), out.begin());
  };
}

torch::Tensor symmetric(std::int64_t n, std::uint64_t seed) {
  const torch::Tensor values = normal_tensor({n, n}, seed);
  return (values + values.t()).contiguous() / 2;
}

TEST(Trace, OfADiagonalIsExact) {
  const torch::Tensor matrix = torch::diag(torch::arange(1.0F, 51.0F));
  const Estimate trace = trace_estimate(product_with(matrix), 50, 4, 1);
  EXPECT_EQ(trace.value, 1275.0);
  EXPECT_EQ(trace.standard_error, 0.0);
}

TEST(Trace, KnowsItsError) {
  const torch::Tensor matrix = symmetric(60, 3);
  const double truth = matrix.trace().item<double>();
  const Estimate trace = trace_estimate(product_with(matrix), 60, kProbes, 7);
  EXPECT_NEAR(trace.value, truth, kErrors * trace.standard_error);
  // The variance of a probe is twice the sum of the squares beside the diagonal.
  const torch::Tensor beside = matrix - torch::diag(matrix.diag());
  const double expected = std::sqrt(2.0 * beside.square().sum().item<double>() / kProbes);
  EXPECT_NEAR(trace.standard_error, expected, 0.3 * expected) << "six standard deviations of a deviation of 200";
}

TEST(Trace, OfOneProbeHasNoError) {
  EXPECT_TRUE(std::isnan(trace_estimate(product_with(symmetric(5, 3)), 5, 1, 7).standard_error));
  EXPECT_PRED2(contains, message_of<InvalidConfig>([] { trace_estimate(product_with(symmetric(5, 3)), 5, 0, 7); }),
               "probes must be 1 or more, got 0");
}

TEST(LargestEigenvalue, IsThatOfADenseSolver) {
  for (const std::int64_t n : {1, 2, 30, 200}) {
    const torch::Tensor matrix = symmetric(n, 9);
    const double truth = torch::linalg_eigvalsh(matrix.to(torch::kDouble)).max().item<double>();
    const LargestEigenvalue found =
        largest_eigenvalue(product_with(matrix), static_cast<std::size_t>(n), {.steps = 200, .tolerance = 1e-3}, 1);
    EXPECT_NEAR(found.estimate.value, truth, 1e-3 * std::abs(truth)) << n;
    EXPECT_EQ(found.unsettled, 0) << n;
    EXPECT_LE(found.estimate.standard_error, 1e-3 * std::abs(truth)) << n;
  }
}

TEST(LargestEigenvalue, IsTheLargestBySignNotByMagnitude) {
  const torch::Tensor matrix = torch::diag(torch::tensor({-100.0F, -3.0F, -2.0F, 5.0F}));
  EXPECT_NEAR(largest_eigenvalue(product_with(matrix), 4, {}, 1).estimate.value, 5.0, 1e-2);
}

TEST(LargestEigenvalue, SaysWhenItsStepsWereTooFew) {
  const torch::Tensor matrix = torch::diag(torch::linspace(0.0, 1.0, 1000));
  const LargestEigenvalue found = largest_eigenvalue(product_with(matrix), 1000, {.starts = 4, .steps = 5}, 1);
  EXPECT_EQ(found.unsettled, 4);
  EXPECT_LT(found.estimate.value, 1.0);
}

TEST(LargestEigenvalue, OfZerosIsZero) {
  const LargestEigenvalue found = largest_eigenvalue(product_with(torch::zeros({6, 6})), 6, {}, 1);
  EXPECT_EQ(found.estimate.value, 0.0);
  EXPECT_EQ(found.unsettled, 0);
}

/// Two layers with tanh between them, or one alone: cross entropy of 12 points in 3 classes.
struct Tiny {
  explicit Tiny(bool hidden) {
    const std::int64_t inner = hidden ? 5 : 4;
    parameters = {normal_tensor({3, inner}, 11), normal_tensor({3}, 12)};
    if (hidden) parameters.insert(parameters.end(), {normal_tensor({5, 4}, 13), normal_tensor({5}, 14)});
    for (torch::Tensor& parameter : parameters) parameter.set_requires_grad(true);
    size = 0;
    for (const torch::Tensor& parameter : parameters) size += parameter.numel();
  }
  torch::Tensor loss() const {
    torch::Tensor values = input;
    if (parameters.size() > 2) values = torch::tanh(torch::linear(values, parameters[2], parameters[3]));
    return torch::cross_entropy_loss(torch::linear(values, parameters[0], parameters[1]), labels);
  }
  /// Row by row, each the gradient of an entry of the gradient.
  torch::Tensor hessian() const {
    std::vector<torch::Tensor> flat;
    for (const auto& part : torch::autograd::grad({loss()}, parameters, {}, true, true)) flat.push_back(part.flatten());
    const torch::Tensor gradient = torch::cat(flat);
    std::vector<torch::Tensor> rows;
    for (std::int64_t i = 0; i < size; ++i) {
      rows.push_back(test::flattened(torch::autograd::grad({gradient[i]}, parameters, {}, true)));
    }
    return torch::stack(rows);
  }
  MatrixProduct product() const {
    return [this](View<const float> vector, View<float> out) {
      std::fill(out.begin(), out.end(), 0.0F);
      add_hessian_product(loss(), parameters, vector, out);
    };
  }

  torch::Tensor input = normal_tensor({12, 4}, 10);
  torch::Tensor labels = torch::arange(12, torch::kLong).remainder(3);
  std::vector<torch::Tensor> parameters;
  std::int64_t size;
};

class TinyNetworks : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Layers, TinyNetworks, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "mlp" : "softmax"; });

TEST_P(TinyNetworks, HaveTheFlatnessOfTheirWholeHessian) {
  const Tiny network(GetParam());
  const torch::Tensor hessian = network.hessian().to(torch::kDouble);
  ASSERT_LT((hessian - hessian.t()).abs().max().item<double>(), 1e-6);
  const auto size = static_cast<std::size_t>(network.size);

  const Estimate trace = trace_estimate(network.product(), size, kProbes, 2);
  EXPECT_NEAR(trace.value, hessian.trace().item<double>(), kErrors * trace.standard_error);
  EXPECT_GT(trace.standard_error, 0.0);

  const double truth = torch::linalg_eigvalsh(hessian).max().item<double>();
  const LargestEigenvalue largest = largest_eigenvalue(network.product(), size, {.tolerance = 1e-3}, 2);
  EXPECT_NEAR(largest.estimate.value, truth, 2e-3 * truth);
  EXPECT_EQ(largest.unsettled, 0);
}

TEST(Softmax, HasTheHessianOfTheBook) {
  const Tiny network(false);
  // Of the biases alone: mean over points of diag(p) − p pᵀ.
  const torch::Tensor p =
      torch::softmax(torch::linear(network.input, network.parameters[0], network.parameters[1]), 1).detach();
  const torch::Tensor expected = (torch::diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)).mean(0);
  const torch::Tensor biases = network.hessian().slice(0, 12).slice(1, 12);
  EXPECT_LT((biases - expected).abs().max().item<float>(), 1e-6F);
}

TEST(HessianProduct, LeavesGradientsAloneAndAdds) {
  const Tiny network(true);
  const auto size = static_cast<std::size_t>(network.size);
  Vector vector(size, 0.5F), once(size), twice(size);
  add_hessian_product(network.loss(), network.parameters, View<const float>(vector), View<float>(once));
  for (int i = 0; i < 2; ++i) {
    add_hessian_product(network.loss(), network.parameters, View<const float>(vector), View<float>(twice));
  }
  for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(twice[i], 2.0F * once[i]);
  for (const torch::Tensor& parameter : network.parameters) EXPECT_FALSE(parameter.grad().defined());
}

class EveryKindOfModel : public ::testing::TestWithParam<const char*> {
 protected:
  InputShape shape_ = std::string(GetParam()) == "bilstm" ? test::texts(7, 30) : test::images(3, 16);
  torch::Tensor input_ = test::some_input(shape_, 6);

  /// In evaluation mode, with statistics that training has moved.
  std::shared_ptr<nets::Network> network(torch::Dtype type) const {
    auto made = nets::make_network(GetParam(), shape_, 10, 4);
    made->forward(input_);
    made->eval();
    made->to(type);
    return made;
  }
  /// At the start + shift·direction, in float64.
  torch::Tensor gradient_at(double shift, const torch::Tensor& direction) const {
    const auto moved = network(torch::kDouble);
    std::int64_t offset = 0;
    {
      const torch::NoGradGuard no_graph;
      for (torch::Tensor& parameter : moved->parameters()) {
        parameter.add_(direction.slice(0, offset, offset + parameter.numel()).view(parameter.sizes()), shift);
        offset += parameter.numel();
      }
    }
    const torch::Tensor input = input_.is_floating_point() ? input_.to(torch::kDouble) : input_;
    return test::flattened(torch::autograd::grad({test::loss_of(*moved, input)}, moved->parameters()));
  }
};
INSTANTIATE_TEST_SUITE_P(Models, EveryKindOfModel, ::testing::Values("mlp", "cnn", "resnet20", "bilstm"),
                         [](const auto& model) { return std::string(model.param); });

// Against the difference of two gradients, which knows nothing of backward twice.
TEST_P(EveryKindOfModel, MultipliesByItsHessian) {
  const auto plain = network(torch::kFloat);
  const auto size = static_cast<std::int64_t>(nets::parameter_count(*plain));
  const torch::Tensor direction = normal_tensor({size}, 21);
  const torch::Tensor product = torch::zeros({size});
  add_hessian_product(test::loss_of(*plain, input_), plain->parameters(), view_of(direction),
                      {product.data_ptr<float>(), static_cast<std::size_t>(size)});
  // So small a shift crosses no kink of ReLU, where the difference would leap, and float64 still has five digits of it.
  const double shift = 1e-10;
  const torch::Tensor along = direction.to(torch::kDouble);
  const torch::Tensor expected = (gradient_at(shift, along) - gradient_at(-shift, along)) / (2.0 * shift);
  const double off = (product.to(torch::kDouble) - expected).norm().item<double>();
  EXPECT_LT(off, 1e-2 * expected.norm().item<double>());
  EXPECT_GT(expected.norm().item<double>(), 0.0);
}

RunConfig small_run(const std::string& method, const std::string& model = "mlp") {
  RunConfig config = default_task_config("digits", method);
  config.task.model = model;
  config.task.batch = 8;
  config.task.train_samples = 240;
  config.task.test_samples = 20;
  config.workers = 3;
  config.steps = 4;
  config.eval_interval = 0;
  return config;
}

constexpr FlatnessOptions kFew{.samples = 50, .batch = 20, .probes = 2, .lanczos = {.starts = 2, .steps = 3}};

TEST(Flatness, IsTheSameForASeedAndNotForAnother) {
  const RunConfig config = small_run("sgd");
  const auto workload = task_workload(config, "");
  const NetworkPoint point = start_point(config, *workload);
  double share = 0.0;
  const Flatness first = flatness(config, *workload, point, kFew, [&](double done) { share = done; });
  const Flatness again = flatness(config, *workload, point, kFew);
  EXPECT_EQ(first.samples, 50U);
  EXPECT_EQ(first.trace.value, again.trace.value);
  EXPECT_EQ(first.largest.estimate.value, again.largest.estimate.value);
  EXPECT_EQ(first.loss, again.loss);
  EXPECT_NEAR(first.loss, std::log(10.0), 0.2) << "an untrained network on ten classes";
  EXPECT_GT(share, 0.0);
  FlatnessOptions other = kFew;
  other.seed = 2;
  EXPECT_NE(flatness(config, *workload, point, other).trace.value, first.trace.value);
}

// How the sample is cut into passes is a matter of memory alone: batch norm is in evaluation mode.
TEST(Flatness, DoesNotDependOnTheBatch) {
  const RunConfig config = small_run("sgd", "resnet20");
  const auto workload = task_workload(config, "");
  NetworkPoint point = start_point(config, *workload);
  point.statistics.assign(1376, 1.0F);
  FlatnessOptions options{.samples = 12, .batch = 12, .probes = 1, .lanczos = {.starts = 1, .steps = 1}};
  const Flatness whole = flatness(config, *workload, point, options);
  options.batch = 5;
  const Flatness parts = flatness(config, *workload, point, options);
  EXPECT_NEAR(parts.trace.value, whole.trace.value, 1e-3 * std::abs(whole.trace.value));
  point.statistics.clear();
  EXPECT_NE(flatness(config, *workload, point, options).loss, parts.loss) << "statistics were not estimated";
}

TEST(Flatness, RefusesWhatIsNoNetworkAndWhatIsNotThere) {
  const RunConfig config = default_config("logistic-regression");
  const auto problem =
      problem_workload(make_problem(config.problem, config.problem_settings, config.workers, config.seed));
  EXPECT_PRED2(contains, message_of<InvalidConfig>([&] { start_point(config, *problem); }), "only a network");
  const RunConfig task = small_run("sgd");
  const auto workload = task_workload(task, "");
  EXPECT_PRED2(contains, message_of<InvalidConfig>([&] { flatness(task, *workload, {}, kFew); }), "the point");
  EXPECT_PRED2(contains, message_of<Error>([&] { checkpoint_point(task, *workload, "nowhere/step-1"); }), "nowhere");
}

class PointsOfRuns : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, PointsOfRuns, ::testing::Values("sgd", "topk", "def", "mgrawa"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(PointsOfRuns, AreThoseThatTheRunWouldTest) {
  const test::TemporaryFolder own;
  const std::string& folder = own.path();
  RunConfig config = small_run(GetParam());
  if (GetParam() == std::string("mgrawa")) config.options.period = 3;
  const auto workload = task_workload(config, "");
  const Vector expected = run_threads(config, *workload).front().model;
  config.checkpoint_interval = 4;
  config.steps = 6;
  run_threads(config, *workload, nullptr, {.folder = folder});
  const auto checkpoints = find_checkpoints(folder);
  ASSERT_EQ(checkpoints.size(), 1U);
  const NetworkPoint point = checkpoint_point(config, *workload, checkpoints.front());
  EXPECT_EQ(point.step, 4U);
  EXPECT_EQ(point.model, expected);
}

TEST(PointsOfRuns, HaveTheStatisticsOfTheTest) {
  const test::TemporaryFolder own;
  const std::string& folder = own.path();
  RunConfig config = small_run("sgd", "resnet20");
  config.workers = 2;
  config.steps = 2;
  config.checkpoint_interval = 1;
  const auto workload = task_workload(config, "");
  run_threads(config, *workload, nullptr, {.folder = folder});
  const NetworkPoint point = checkpoint_point(config, *workload, find_checkpoints(folder).front());
  ASSERT_EQ(point.statistics.size(), 1376U);
  // One step with momentum 0.1 from a mean of 0 and a variance of 1: neither the start nor a new estimate.
  EXPECT_NE(point.statistics[0], 0.0F);
  EXPECT_NEAR(point.statistics[16], 0.9F, 0.3F);
}

// The report of gradients takes any learner; a network's are taken in training mode and leave the point alone.
TEST(GradientReport, OfANetwork) {
  const RunConfig config = small_run("sgd");
  const auto workload = task_workload(config, "");
  const NetworkPoint point = start_point(config, *workload);
  const GradientReport report =
      gradient_report(config, *workload, View<const float>(point.model), {.batches = 4, .first_step = 2});
  EXPECT_EQ(report.parameters, point.model.size());
  EXPECT_EQ(report.gradients, 12U);
  EXPECT_NEAR(report.loss, std::log(10.0), 0.2);
  EXPECT_GT(report.gradient_density, 0.0);
  EXPECT_LT(report.noise_density, 1.0);
  EXPECT_GT(report.energy.top_tenth, report.energy.top_hundredth);
  EXPECT_GT(report.majority, 0.5);
  EXPECT_EQ(report.loss,
            gradient_report(config, *workload, View<const float>(point.model), {.batches = 4, .first_step = 2}).loss);
}

}  // namespace
}  // namespace laconic
