#include "torch/train/network_learner.h"

#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <torch/types.h>

#include <algorithm>

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
/// Samples of one forward pass over the test set.
constexpr std::uint32_t kTestBatch = 250;

template <class T>
View<T> entries(torch::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
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
  if (shape.kind == InputKind::text) {
    torch::Tensor tokens = batch_memory({count, shape.length}, torch::kLong);
    task_->train_tokens(samples, entries<std::int64_t>(tokens));
    return on_device(tokens);
  }
  torch::Tensor images = batch_memory({count, shape.channels, shape.height, shape.width}, torch::kFloat);
  task_->train_images(samples, epoch, entries<float>(images));
  return on_device(images);
}

torch::Tensor NetworkLearner::labels_of(std::span<const std::uint32_t> samples) const {
  torch::Tensor labels = batch_memory({static_cast<std::int64_t>(samples.size())}, torch::kLong);
  std::int64_t* values = entries<std::int64_t>(labels).begin();
  for (const std::uint32_t sample : samples) *values++ = task_->train_label(sample);
  return on_device(labels);
}

torch::Tensor NetworkLearner::test_inputs(std::uint32_t first, std::uint32_t count) const {
  const InputShape shape = task_->input();
  if (shape.kind == InputKind::text) {
    torch::Tensor tokens = batch_memory({count, shape.length}, torch::kLong);
    task_->test_tokens(first, count, entries<std::int64_t>(tokens));
    return on_device(tokens);
  }
  torch::Tensor images = batch_memory({count, shape.channels, shape.height, shape.width}, torch::kFloat);
  task_->test_images(first, count, entries<float>(images));
  return on_device(images);
}

torch::Tensor NetworkLearner::test_labels(std::uint32_t first, std::uint32_t count) const {
  torch::Tensor labels = batch_memory({count}, torch::kLong);
  const View<std::int64_t> values = entries<std::int64_t>(labels);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = task_->test_label(first + i);
  return on_device(labels);
}

torch::Tensor NetworkLearner::logits_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) {
  network_.network().set_draws({config_.seed, epoch, {samples.begin(), samples.end()}});
  return network_.network().forward(inputs_of(samples, epoch));
}

torch::Tensor NetworkLearner::loss_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) {
  return torch::cross_entropy_loss(logits_of(samples, epoch), labels_of(samples));
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
      count.samples += each.samples;
    }
    tested_statistics_ = network_.read_buffers();
  }
  network_.write_buffers(own_statistics_);
  const auto samples = static_cast<double>(count.samples);
  return {.loss = count.loss / samples, .accuracy = static_cast<double>(count.right) / samples};
}

/// The sums stay on the device until the end, so that batches follow each other without a wait.
NetworkLearner::Count NetworkLearner::test(std::uint32_t first, std::uint32_t last) {
  const torch::NoGradGuard no_graph;
  network_.network().eval();
  torch::Tensor loss = torch::zeros({}, torch::device(network_.device()).dtype(torch::kDouble));
  torch::Tensor right = torch::zeros({}, torch::device(network_.device()).dtype(torch::kLong));
  for (std::uint32_t begin = first; begin < last; begin += kTestBatch) {
    const std::uint32_t count = std::min(kTestBatch, last - begin);
    const torch::Tensor labels = test_labels(begin, count);
    const torch::Tensor logits = network_.network().forward(test_inputs(begin, count));
    loss += torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
    right += logits.argmax(1).eq(labels).sum();
  }
  return {.loss = loss.item<double>(),
          .right = static_cast<std::uint64_t>(right.item<std::int64_t>()),
          .samples = last - first};
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
