#include "torch/train/network_learner.h"

#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "base/buffer.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/transfer.h"
#include "experiment/derive.h"
#include "experiment/gather.h"
#include "kernels/elementwise/elementwise.h"
#if LACONIC_EXPORT
#include "torch/train/export.h"
#endif
#include "torch/models/models.h"

namespace laconic {
namespace {

/// Batches that a worker gives to statistics that are estimated anew: its first ones.
constexpr std::uint32_t kStatisticsBatches = 20;
/// Samples of one forward pass over the test set, and what they may predict together.
constexpr std::uint32_t kTestBatch = 250;
constexpr std::uint32_t kTestPredictions = 16000;

template <class T>
View<T> entries(torch::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

/// A token by the shares that a softmax gives to each: the first at which their sum passes a draw from [0, 1).
std::int64_t draw_token(const torch::Tensor& logits, double draw) {
  const torch::Tensor shares = torch::softmax(logits.to(torch::kCPU, torch::kDouble), 0).cumsum(0);
  const double* sums = shares.const_data_ptr<double>();
  const std::int64_t last = shares.numel() - 1;
  return std::min<std::int64_t>(last, std::upper_bound(sums, sums + last, draw) - sums);
}

}  // namespace

NetworkLearner::NetworkLearner(const RunConfig& config, std::shared_ptr<const Task> task,
                               std::shared_ptr<const Sampler> sampler, int rank)
    : config_(config),
      task_(std::move(task)),
      sampler_(std::move(sampler)),
      rank_(rank),
      place_(training_place(config)),
      on_place_(*place_),
      network_(nets::make_network(config.task.model, task_->input(), task_->classes(), config.seed),
               place_->device()) {
  at::set_num_threads(config.task.torch_threads);  // of this thread's operators
  network_.network().compute_on(place_);
}

void NetworkLearner::start(View<float> model) { copy(*place_, network_.parameters(), model); }

torch::Tensor NetworkLearner::batch_memory(at::IntArrayRef sizes, torch::ScalarType type) const {
  return torch::empty(sizes, torch::dtype(type).pinned_memory(network_.device().is_cuda()));
}

torch::Tensor NetworkLearner::on_device(const torch::Tensor& batch) const {
  return batch.to(network_.device(), batch.scalar_type(), /*non_blocking=*/true);
}

torch::Tensor NetworkLearner::inputs_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) const {
  const InputShape shape = task_->input();
  const auto count = static_cast<std::int64_t>(samples.size());
  if (shape.kind != InputKind::image) {
    torch::Tensor tokens = batch_memory({count, shape.length}, torch::kLong);
    task_->train_tokens(samples, entries<std::int64_t>(tokens));
    return on_device(tokens);
  }
  torch::Tensor images = batch_memory({count, shape.channels, shape.height, shape.width}, torch::kFloat);
  task_->train_images(samples, epoch, entries<float>(images));
  return on_device(images);
}

torch::Tensor NetworkLearner::targets_of(std::span<const std::uint32_t> samples) const {
  torch::Tensor targets = batch_memory({static_cast<std::int64_t>(samples.size()) * task_->targets()}, torch::kLong);
  task_->train_targets(samples, entries<std::int64_t>(targets));
  return on_device(targets);
}

torch::Tensor NetworkLearner::test_inputs(std::uint32_t first, std::uint32_t count) const {
  const InputShape shape = task_->input();
  if (shape.kind != InputKind::image) {
    torch::Tensor tokens = batch_memory({count, shape.length}, torch::kLong);
    task_->test_tokens(first, count, entries<std::int64_t>(tokens));
    return on_device(tokens);
  }
  torch::Tensor images = batch_memory({count, shape.channels, shape.height, shape.width}, torch::kFloat);
  task_->test_images(first, count, entries<float>(images));
  return on_device(images);
}

torch::Tensor NetworkLearner::test_targets(std::uint32_t first, std::uint32_t count) const {
  torch::Tensor targets = batch_memory({std::int64_t{count} * task_->targets()}, torch::kLong);
  task_->test_targets(first, count, entries<std::int64_t>(targets));
  return on_device(targets);
}

std::uint32_t NetworkLearner::test_batch() const {
  return std::clamp(kTestPredictions / static_cast<std::uint32_t>(task_->targets()), 1U, kTestBatch);
}

torch::Tensor NetworkLearner::logits_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) {
  network_.network().set_draws({config_.seed, epoch, {samples.begin(), samples.end()}});
  const InPrecision precision(config_);
  return network_.network().forward(inputs_of(samples, epoch)).to(torch::kFloat);
}

torch::Tensor NetworkLearner::loss_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) {
  return torch::cross_entropy_loss(logits_of(samples, epoch), targets_of(samples));
}

double NetworkLearner::gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) {
  network_.rebind(model);
  network_.rebind_gradient(gradient);
  network_.zero_gradient();
  network_.on_gradient_ready(ready);
  network_.network().train();
  std::uint32_t epoch = 0;
  sampler_->batch(rank_, step, samples_, epoch);
  const torch::Tensor loss = loss_of(samples_, epoch);
  loss.backward();
  return loss.item<double>();
}

/// In training mode, as the workers' own gradients are; what batch norm would remember of it is dropped.
void NetworkLearner::shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) {
  own_statistics_ = network_.read_buffers();
  network_.rebind(model);
  network_.rebind_gradient(gradient);
  network_.zero_gradient();
  network_.on_gradient_ready({});
  network_.network().train();
  std::uint32_t epoch = 0;
  sampler_->shared_batch(round, samples_, epoch);
  loss_of(samples_, epoch).backward();
  network_.write_buffers(own_statistics_);
}

/// What batch norm uses at the point to test: the mean of the workers' statistics; where workers hold different models
/// the point is nobody's own, so each first estimates them there from some batches of its shard.
void NetworkLearner::settle_statistics(Communicator* group) {
  if (network_.buffer_tensors().empty()) return;
  const torch::NoGradGuard no_graph;
  if (group != nullptr && models_may_differ(config_)) {
    network_.network().train();
    for (std::uint32_t i = 0; i < kStatisticsBatches; ++i) {
      std::uint32_t epoch = 0;
      sampler_->batch(rank_, i, samples_, epoch);
      network_.network().set_norm_momentum(1.0 / (i + 1));
      logits_of(samples_, epoch);
    }
    network_.network().set_norm_momentum(0.1);
  }
  if (group == nullptr) return;
  std::vector<float> statistics = network_.read_buffers();
  const auto all = gather(*group, View<const float>(statistics));
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    float sum = all[i];
    for (std::size_t rank = 1; rank * statistics.size() < all.size(); ++rank) sum += all[rank * statistics.size() + i];
    statistics[i] = sum / static_cast<float>(group->size());
  }
  network_.write_buffers(statistics);
}

std::vector<float> NetworkLearner::statistics_at(View<float> point, Communicator* group) {
  own_statistics_ = network_.read_buffers();
  network_.rebind(point);
  settle_statistics(group);
  std::vector<float> settled = network_.read_buffers();
  network_.write_buffers(own_statistics_);
  return settled;
}

/// With a group each rank takes its part of the test set.
Evaluation NetworkLearner::evaluate(View<float> point, Communicator* group) {
  own_statistics_ = network_.read_buffers();
  network_.rebind(point);
  settle_statistics(group);
  const auto size = std::uint64_t{task_->test_size()};
  const auto ranks = static_cast<std::uint64_t>(group != nullptr ? group->size() : 1);
  const auto part = static_cast<std::uint64_t>(group != nullptr ? group->rank() : 0);
  Count count =
      test(static_cast<std::uint32_t>(size * part / ranks), static_cast<std::uint32_t>(size * (part + 1) / ranks));
  if (group != nullptr) {
    const auto all = gather_number(*group, count);
    count = {};
    for (const Count& each : all) {
      count.loss += each.loss;
      count.right += each.right;
      count.predictions += each.predictions;
    }
    tested_statistics_ = network_.read_buffers();
  }
  network_.write_buffers(own_statistics_);
  return evaluation_of(count);
}

Evaluation NetworkLearner::evaluation_of(const Count& count) const {
  const auto predictions = static_cast<double>(count.predictions);
  Evaluation worth{.loss = count.loss / predictions};
  switch (task_->metric()) {
    case Metric::accuracy:
      worth.accuracy = static_cast<double>(count.right) / predictions;
      break;
    case Metric::perplexity:
      worth.perplexity = std::exp(worth.loss);
      break;
  }
  return worth;
}

torch::Tensor NetworkLearner::test_logits(const torch::Tensor& input) {
  const InPrecision precision(config_);
  return network_.network().forward(input).to(torch::kFloat);
}

/// The sums stay on the device until the end, so that batches follow each other without a wait.
NetworkLearner::Count NetworkLearner::test(std::uint32_t first, std::uint32_t last) {
  const torch::NoGradGuard no_graph;
  network_.network().eval();
  torch::Tensor loss = torch::zeros({}, torch::device(network_.device()).dtype(torch::kDouble));
  torch::Tensor right = torch::zeros({}, torch::device(network_.device()).dtype(torch::kLong));
  const std::uint32_t batch = test_batch();
  for (std::uint32_t begin = first; begin < last; begin += batch) {
    const std::uint32_t count = std::min(batch, last - begin);
    const torch::Tensor targets = test_targets(begin, count);
    const torch::Tensor logits = test_logits(test_inputs(begin, count));
    loss += torch::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum);
    right += logits.argmax(1).eq(targets).sum();
  }
  return {.loss = loss.item<double>(),
          .right = static_cast<std::uint64_t>(right.item<std::int64_t>()),
          .predictions = std::uint64_t{last - first} * static_cast<std::uint64_t>(task_->targets())};
}

std::string NetworkLearner::write_text(View<const float> point, std::uint32_t characters) {
  const std::string& alphabet = task_->alphabet();
  LACONIC_CHECK(!alphabet.empty());
  const torch::NoGradGuard no_graph;
  Buffer<float> here;
  here.reserve(*place_, point.size());
  copy_from_cpu(*place_, point.data(), here.view(point.size()));
  network_.rebind(here.view(point.size()));
  network_.network().eval();
  const std::size_t line_break = alphabet.find('\n');
  std::vector<std::int64_t> tokens{line_break == std::string::npos ? 0 : static_cast<std::int64_t>(line_break)};
  std::string text;
  const RandomStream stream{.seed = config_.seed, .purpose = Purpose::text_sample};
  for (std::uint32_t i = 0; i < characters; ++i) {
    const std::size_t read = std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(task_->input().length));
    torch::Tensor input = batch_memory({1, static_cast<std::int64_t>(read)}, torch::kLong);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(read), tokens.end(), entries<std::int64_t>(input).begin());
    const torch::Tensor logits = test_logits(on_device(input));
    tokens.push_back(draw_token(logits[-1], draw32(stream, i) * 0x1p-32));
    text += alphabet[static_cast<std::size_t>(tokens.back())];
  }
  return text;
}

void NetworkLearner::write_model(const std::string& path, View<const float> point) {
#if LACONIC_EXPORT
  own_statistics_ = network_.read_buffers();
  network_.write_buffers(tested_statistics_);
  network_.rebind(point);
  export_model(path, network_,
               {{"task", config_.task.name}, {"model", config_.task.model}, {"method", config_.method}});
  network_.write_buffers(own_statistics_);
#else
  (void)path;
  (void)point;
#endif
}

void NetworkLearner::save(State& state) const {
  const std::vector<float> statistics = network_.read_buffers();
  state.put("statistics", View<const float>(statistics));
}

void NetworkLearner::load(const State& state) {
  std::vector<float> statistics(network_.buffers().size());
  state.get("statistics", View<float>(statistics));
  network_.write_buffers(statistics);
}

}  // namespace laconic
