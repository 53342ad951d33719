#include "torch/train/network_learner.h"

#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <torch/types.h>

#include <algorithm>

#include "experiment/derive.h"
#include "experiment/gather.h"
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

void put(View<const float> from, View<float> to) { std::copy(from.data(), from.data() + from.size(), to.data()); }

}  // namespace

NetworkLearner::NetworkLearner(const RunConfig& config, std::shared_ptr<const Task> task,
                               std::shared_ptr<const Sampler> sampler, int rank)
    : config_(config),
      task_(std::move(task)),
      sampler_(std::move(sampler)),
      rank_(rank),
      network_(nets::make_network(config.task.model, task_->input(), task_->classes(), config.seed)) {
  at::set_num_threads(config.task.torch_threads);  // of this thread's operators
}

void NetworkLearner::start(View<float> model) { put(network_.parameters(), model); }

torch::Tensor NetworkLearner::inputs_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) {
  const InputShape shape = task_->input();
  const auto count = static_cast<std::int64_t>(samples.size());
  if (shape.kind == InputKind::text) {
    auto tokens = torch::empty({count, shape.length}, torch::kLong);
    task_->train_tokens(samples, {tokens.data_ptr<std::int64_t>(), static_cast<std::size_t>(tokens.numel())});
    return tokens;
  }
  auto images = torch::empty({count, shape.channels, shape.height, shape.width});
  task_->train_images(samples, epoch, {images.data_ptr<float>(), static_cast<std::size_t>(images.numel())});
  return images;
}

torch::Tensor NetworkLearner::labels_of(std::span<const std::uint32_t> samples) const {
  auto labels = torch::empty({static_cast<std::int64_t>(samples.size())}, torch::kLong);
  auto* values = labels.data_ptr<std::int64_t>();
  for (const std::uint32_t sample : samples) *values++ = task_->train_label(sample);
  return labels;
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
  const View<float> statistics = network_.buffers();
  own_statistics_.assign(statistics.begin(), statistics.end());
  network_.rebind(model);
  network_.rebind_gradient(gradient);
  network_.zero_gradient();
  network_.on_gradient_ready({});
  network_.network().train();
  std::uint32_t epoch = 0;
  sampler_->shared_batch(round, samples_, epoch);
  loss_of(samples_, epoch).backward();
  put(own_statistics_, statistics);
}

/// What batch norm uses at the point to test: the mean of the workers' statistics; where workers hold different models
/// the point is nobody's own, so each first estimates them there from some batches of its shard.
void NetworkLearner::settle_statistics(Communicator* group) {
  const View<float> statistics = network_.buffers();
  if (statistics.empty()) return;
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
  const auto all = gather(*group, View<const float>(statistics));
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    float sum = all[i];
    for (std::size_t rank = 1; rank * statistics.size() < all.size(); ++rank) sum += all[rank * statistics.size() + i];
    statistics[i] = sum / static_cast<float>(group->size());
  }
}

std::vector<float> NetworkLearner::statistics_at(View<float> point, Communicator* group) {
  const View<float> statistics = network_.buffers();
  own_statistics_.assign(statistics.begin(), statistics.end());
  network_.rebind(point);
  settle_statistics(group);
  std::vector<float> settled(statistics.begin(), statistics.end());
  put(own_statistics_, statistics);
  return settled;
}

/// With a group each rank takes its part of the test set.
Evaluation NetworkLearner::evaluate(View<float> point, Communicator* group) {
  const View<float> statistics = network_.buffers();
  own_statistics_.assign(statistics.begin(), statistics.end());
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
    tested_statistics_.assign(statistics.begin(), statistics.end());
  }
  put(own_statistics_, statistics);
  const auto samples = static_cast<double>(count.samples);
  return {.loss = count.loss / samples, .accuracy = static_cast<double>(count.right) / samples};
}

NetworkLearner::Count NetworkLearner::test(std::uint32_t first, std::uint32_t last) {
  const torch::NoGradGuard no_graph;
  const InputShape shape = task_->input();
  network_.network().eval();
  Count sum;
  for (std::uint32_t begin = first; begin < last; begin += kTestBatch) {
    const std::uint32_t count = std::min(kTestBatch, last - begin);
    torch::Tensor inputs;
    if (shape.kind == InputKind::text) {
      inputs = torch::empty({count, shape.length}, torch::kLong);
      task_->test_tokens(begin, count, {inputs.data_ptr<std::int64_t>(), static_cast<std::size_t>(inputs.numel())});
    } else {
      inputs = torch::empty({count, shape.channels, shape.height, shape.width});
      task_->test_images(begin, count, {inputs.data_ptr<float>(), static_cast<std::size_t>(inputs.numel())});
    }
    auto labels = torch::empty({count}, torch::kLong);
    for (std::uint32_t i = 0; i < count; ++i) labels[i] = task_->test_label(begin + i);
    const torch::Tensor logits = network_.network().forward(inputs);
    sum.loss += torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
    sum.right += static_cast<std::uint64_t>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
    sum.samples += count;
  }
  return sum;
}

void NetworkLearner::write_model(const std::string& path, View<const float> point) {
#if LACONIC_EXPORT
  const View<float> statistics = network_.buffers();
  own_statistics_.assign(statistics.begin(), statistics.end());
  put(tested_statistics_, statistics);
  network_.rebind(point);
  export_model(path, network_,
               {{"task", config_.task.name}, {"model", config_.task.model}, {"method", config_.method}});
  put(own_statistics_, statistics);
#else
  (void)path;
  (void)point;
#endif
}

void NetworkLearner::save(State& state) const { state.put("statistics", View<const float>(network_.buffers())); }

void NetworkLearner::load(const State& state) { state.get("statistics", network_.buffers()); }

}  // namespace laconic
